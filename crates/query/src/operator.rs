//! What DataFusion asks of every operator, for ours: they have one input or none. Only a scan has
//! expressions that another part of the engine looks for: what joins let it learn.

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;

/// The items of an `ExecutionPlan` of this name that has no input, and no expressions unless
/// `with expressions` follows: then it says itself which it has.
macro_rules! leaf_operator {
    ($name:literal) => {
        $crate::operator::no_expressions!();
        $crate::operator::leaf_operator!($name, with expressions);
    };
    ($name:literal, with expressions) => {
        fn name(&self) -> &'static str {
            $name
        }

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
        $crate::operator::no_expressions!();

        fn name(&self) -> &'static str {
            $name
        }

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

/// An operator without expressions.
macro_rules! no_expressions {
    () => {
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

pub(crate) use {leaf_operator, no_expressions, operator_over};
