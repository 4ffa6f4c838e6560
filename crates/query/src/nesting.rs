//! How deep the walk of a statement is within its queries.

/// The methods of a visitor that count, in its field `queries`, the queries around what it sees.
macro_rules! count_queries {
    ($query:ty) => {
        fn pre_visit_query(&mut self, _query: $query) -> ControlFlow<Self::Break> {
            self.queries += 1;
            ControlFlow::Continue(())
        }

        fn post_visit_query(&mut self, _query: $query) -> ControlFlow<Self::Break> {
            self.queries -= 1;
            ControlFlow::Continue(())
        }
    };
}

pub(crate) use count_queries;
