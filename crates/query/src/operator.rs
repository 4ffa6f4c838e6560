//! What DataFusion asks of every operator, for ours: they have one input or none, and no
//! expressions that another part of the engine may see or change.

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;

/// The items of an `ExecutionPlan` of this name that has no input.
macro_rules! leaf_operator {
    ($name:literal) => {
        $crate::operator::common!($name);

        fn children(&self) -> Vec<&::std::sync::Arc<dyn ExecutionPlan>> {
            Vec::new()
        }

        fn replace_children(
            self: ::std::sync::Arc<Self>,
            _children: Vec<::std::sync::Arc<dyn ExecutionPlan>>,
            _: ::datafusion::physical_plan::execution_plan::ReplaceChildrenOptions,
        ) -> Result<::std::sync::Arc<dyn ExecutionPlan>> {
            Ok(self)
        }

        fn with_new_children(
            self: ::std::sync::Arc<Self>,
            _children: Vec<::std::sync::Arc<dyn ExecutionPlan>>,
        ) -> Result<::std::sync::Arc<dyn ExecutionPlan>> {
            Ok(self)
        }
    };
}

/// The items of an `ExecutionPlan` of this name over the input `$input`; its method `over` makes
/// the same one over another input.
macro_rules! operator_over {
    ($name:literal, $input:ident) => {
        $crate::operator::common!($name);

        fn children(&self) -> Vec<&::std::sync::Arc<dyn ExecutionPlan>> {
            vec![&self.$input]
        }

        fn replace_children(
            self: ::std::sync::Arc<Self>,
            children: Vec<::std::sync::Arc<dyn ExecutionPlan>>,
            _: ::datafusion::physical_plan::execution_plan::ReplaceChildrenOptions,
        ) -> Result<::std::sync::Arc<dyn ExecutionPlan>> {
            Ok(::std::sync::Arc::new(self.over($crate::operator::only(children))))
        }

        fn with_new_children(
            self: ::std::sync::Arc<Self>,
            children: Vec<::std::sync::Arc<dyn ExecutionPlan>>,
        ) -> Result<::std::sync::Arc<dyn ExecutionPlan>> {
            Ok(::std::sync::Arc::new(self.over($crate::operator::only(children))))
        }
    };
}

/// The items that both have.
macro_rules! common {
    ($name:literal) => {
        fn name(&self) -> &'static str {
            $name
        }

        fn apply_expressions(
            &self,
            _f: &mut dyn FnMut(
                &::std::sync::Arc<dyn ::datafusion::physical_expr::PhysicalExpr>,
            ) -> Result<::datafusion::common::tree_node::TreeNodeRecursion>,
        ) -> Result<::datafusion::common::tree_node::TreeNodeRecursion> {
            Ok(::datafusion::common::tree_node::TreeNodeRecursion::Continue)
        }
    };
}

/// The new input of an operator that has one.
pub fn only(mut children: Vec<Arc<dyn ExecutionPlan>>) -> Arc<dyn ExecutionPlan> {
    assert_eq!(children.len(), 1, "the operator has one input");
    children.swap_remove(0)
}

pub(crate) use {common, leaf_operator, operator_over};
