//! Workload groups, which are in metadata alone.

use std::sync::Arc;

use freshet_base::{Result, task};
use freshet_meta::Meta;

use super::Ddl;

impl Ddl {
    /// CREATE WORKLOAD GROUP; returns whether it existed.
    ///
    /// # Errors
    /// Those of metadata.
    pub async fn create_group(
        &self,
        name: String,
        properties: Vec<(String, String)>,
        if_not_exists: bool,
    ) -> Result<bool> {
        self.change_groups(move |meta| meta.create_group(&name, &properties, if_not_exists)).await
    }

    /// ALTER WORKLOAD GROUP.
    ///
    /// # Errors
    /// Those of metadata.
    pub async fn alter_group(&self, name: String, properties: Vec<(String, String)>) -> Result<()> {
        self.change_groups(move |meta| meta.alter_group(&name, &properties)).await
    }

    /// DROP WORKLOAD GROUP; returns whether it existed.
    ///
    /// # Errors
    /// Those of metadata.
    pub async fn drop_group(&self, name: String, if_exists: bool) -> Result<bool> {
        self.change_groups(move |meta| meta.drop_group(&name, if_exists)).await
    }

    async fn change_groups<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Meta) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let store = Arc::clone(&self.store);
        let answer = task::run(self.store.pool(), move || change(store.meta())).await?;
        self.settler.show_catalog();
        Ok(answer)
    }
}
