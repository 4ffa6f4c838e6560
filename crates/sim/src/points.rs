//! Rows that are read by key, without a snapshot, must be those of the log at one LSN (K22).

use freshet_schema::key::KeyCodec;
use freshet_storage::point;
use futures::future::BoxFuture;

use crate::loads::Client;
use crate::rows::{self, KEYS};

impl Client {
    /// Reads all keys of a table at once, if it can be read by key.
    pub fn read_points<'a>(&'a self, table: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let engine = &self.engine;
            let Ok(target) = engine.target("d", table) else { return };
            let (id, schema) = (target.id(), target.schema());
            let codec = KeyCodec::of_sort_key(schema);
            let keys = (0..KEYS).map(|key| {
                let mut bytes = Vec::new();
                let cell = rows::key_cell(key, schema);
                codec.put_cells([Some(cell.as_slice())].into_iter(), &mut bytes);
                bytes
            });
            let mut keys = keys.collect::<Vec<_>>();
            keys.sort();
            let keys = keys.iter().map(Vec::as_slice).collect::<Vec<_>>();
            let from = engine.horizon().get();
            let read = match point::read(
                (engine.views(), &**engine.pool()),
                id,
                schema,
                &keys,
                from,
            )
            .await
            {
                Ok(Some(read)) => read,
                Ok(None) => {
                    self.model.lock().counts.points_unfit += 1;
                    return;
                }
                // Disk accesses may fail, but a file of a view that is read must exist.
                Err(error) => return self.model.lock().check_failed(id, &error),
            };
            assert!(read.at >= from, "a read by key went back in time");
            let rows = read.rows.iter().map(|row| rows::decode(row, schema));
            let mut rows = rows.collect::<Vec<_>>();
            // A key may be a text, whose order is another than that of the model.
            rows.sort_by_key(|row| row.id);
            // Nobody is told before.
            engine.horizon().wait(read.at).await;
            self.model.lock().check_points(id, schema, rows, read.at);
        })
    }
}
