//! Partitions, and the clause that divides a table.

use freshet_base::{ColumnId, Incarnation, PartitionId, TabletId};
use freshet_schema::{
    AutoPartition, Column, ColumnType, DatePart, Partition, PartitionBy, PartitionExpr,
    PartitionFunction, PartitionKey, PartitionMethod, PartitionValues, Step, TimeUnit,
};
use prost::{Message, Oneof};

use super::column::ColumnForm;
use super::rowset::RowsetForm;
use super::{OnDisk, Unreadable, ensure, forms, from_forms, numbered, required};
use crate::partition::Repartition;

#[derive(Clone, PartialEq, Message)]
pub struct PartitionForm {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(uint32, tag = "3")]
    incarnation: u32,
    #[prost(uint64, repeated, tag = "4")]
    tablets: Vec<u64>,
    #[prost(message, optional, tag = "5")]
    values: Option<ValuesForm>,
}

#[derive(Clone, PartialEq, Message)]
pub struct PartitionByForm {
    #[prost(uint32, tag = "1")]
    method: u32,
    #[prost(uint32, repeated, tag = "2")]
    columns: Vec<u32>,
    #[prost(uint32, optional, tag = "3")]
    function: Option<u32>,
    #[prost(bool, tag = "4")]
    has_columns_word: bool,
    #[prost(oneof = "AutoForm", tags = "5, 6")]
    auto: Option<AutoForm>,
    /// With a function that older versions do not know, and refuse.
    #[prost(message, optional, tag = "7")]
    computed: Option<ExprForm>,
}

/// An expression over the column.
#[derive(Clone, PartialEq, Message)]
pub struct ExprForm {
    #[prost(string, tag = "1")]
    text: String,
    #[prost(message, repeated, tag = "2")]
    steps: Vec<StepForm>,
    #[prost(message, optional, tag = "3")]
    of: Option<ColumnForm>,
}

#[derive(Clone, PartialEq, Message)]
pub struct StepForm {
    #[prost(uint32, tag = "1")]
    kind: u32,
    /// A number, or that of a part of a moment.
    #[prost(sint64, tag = "2")]
    operand: i64,
}

#[derive(Clone, Copy, PartialEq, Oneof)]
pub enum AutoForm {
    #[prost(message, tag = "5")]
    Value(()),
    #[prost(uint32, tag = "6")]
    Period(u32),
}

/// A range if it has an upper bound, else a list.
#[derive(Clone, PartialEq, Message)]
pub struct ValuesForm {
    #[prost(message, optional, tag = "1")]
    lower: Option<KeyForm>,
    #[prost(message, optional, tag = "2")]
    upper: Option<KeyForm>,
    #[prost(message, repeated, tag = "3")]
    list: Vec<KeyForm>,
    /// All but those of the list.
    #[prost(bool, tag = "4")]
    others: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct KeyForm {
    #[prost(bytes = "vec", repeated, tag = "1")]
    columns: Vec<Vec<u8>>,
}

/// The partitions that a table has from a place in the log on.
#[derive(Clone, PartialEq, Message)]
pub struct PartitionsForm {
    #[prost(message, repeated, tag = "1")]
    partitions: Vec<PartitionForm>,
}

#[derive(Clone, PartialEq, Message)]
pub struct RepartitionForm {
    #[prost(message, optional, tag = "1")]
    by: Option<PartitionByForm>,
    #[prost(message, repeated, tag = "2")]
    partitions: Vec<PartitionForm>,
    #[prost(message, repeated, tag = "3")]
    removed: Vec<PartitionForm>,
    #[prost(message, repeated, tag = "4")]
    files: Vec<RowsetForm>,
    #[prost(int64, optional, tag = "5")]
    rests_micros: Option<i64>,
    #[prost(uint64, repeated, tag = "6")]
    forgotten: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct RepartitionsForm {
    #[prost(message, repeated, tag = "1")]
    changes: Vec<RepartitionForm>,
}

numbered!(PartitionMethod { Range = 1, List = 2 });
numbered!(PartitionFunction { Year = 1, ToDays = 2, ToSeconds = 3, UnixTimestamp = 4 });
numbered!(DatePart {
    Year = 1,
    Quarter = 2,
    Month = 3,
    Day = 4,
    DayOfYear = 5,
    DayOfWeek = 6,
    Weekday = 7,
    ToDays = 8,
    ToSeconds = 9,
    Hour = 10,
    Minute = 11,
    Second = 12,
    Microsecond = 13,
});
numbered!(TimeUnit { Hour = 1, Day = 2, Week = 3, Month = 4, Quarter = 5, Year = 6 });

impl OnDisk for Partition {
    type Form = PartitionForm;

    fn form(&self) -> PartitionForm {
        PartitionForm {
            id: self.id.get(),
            name: self.name.clone(),
            incarnation: self.incarnation.get(),
            tablets: self.tablets.iter().map(|tablet| tablet.get()).collect(),
            values: self.values.as_ref().map(PartitionValues::form),
        }
    }

    fn from_form(form: PartitionForm) -> Result<Self, Unreadable> {
        ensure(!form.tablets.is_empty(), "a partition has no tablets")?;
        Ok(Self {
            id: PartitionId(form.id),
            name: form.name,
            incarnation: Incarnation(form.incarnation),
            tablets: form.tablets.into_iter().map(TabletId).collect(),
            values: form.values.map(PartitionValues::from_form).transpose()?,
        })
    }
}

/// What stands for the function of a clause with an expression.
const COMPUTED: u32 = 5;

impl OnDisk for Step {
    type Form = StepForm;

    fn form(&self) -> StepForm {
        let (kind, operand) = match self {
            Self::Value => (1, 0),
            Self::Number(number) => (2, *number),
            Self::Part(part) => (3, part.form().into()),
            Self::Add => (4, 0),
            Self::Subtract => (5, 0),
            Self::Multiply => (6, 0),
            Self::Divide => (7, 0),
            Self::Modulo => (8, 0),
            Self::Negate => (9, 0),
            Self::Absolute => (10, 0),
        };
        StepForm { kind, operand }
    }

    fn from_form(form: StepForm) -> Result<Self, Unreadable> {
        Ok(match form.kind {
            1 => Self::Value,
            2 => Self::Number(form.operand),
            3 => Self::Part(DatePart::from_form(u32::try_from(form.operand).unwrap_or(0))?),
            4 => Self::Add,
            5 => Self::Subtract,
            6 => Self::Multiply,
            7 => Self::Divide,
            8 => Self::Modulo,
            9 => Self::Negate,
            10 => Self::Absolute,
            kind => return Err(Unreadable(format!("{kind} is no step of an expression"))),
        })
    }
}

impl OnDisk for PartitionExpr {
    type Form = ExprForm;

    fn form(&self) -> ExprForm {
        let Self { text, steps, of, nullable, numbers } = self;
        let of = Column { nullable: *nullable, ..Column::new(numbers.id, &numbers.name, *of) };
        ExprForm { text: text.clone(), steps: forms(steps), of: Some(of.form()) }
    }

    fn from_form(form: ExprForm) -> Result<Self, Unreadable> {
        let of = required::<Column>(form.of, "column")?;
        let expr = Self {
            text: form.text,
            steps: from_forms(form.steps)?,
            of: of.ty,
            nullable: of.nullable,
            numbers: Column::new(of.id, of.name, ColumnType::BigInt { unsigned: false }),
        };
        ensure(expr.is_valid(), "what divides it is no expression over its column")?;
        Ok(expr)
    }
}

impl OnDisk for PartitionBy {
    type Form = PartitionByForm;

    fn form(&self) -> PartitionByForm {
        PartitionByForm {
            method: self.method.form(),
            columns: self.columns.iter().map(|column| column.get()).collect(),
            function: match self.computed {
                Some(_) => Some(COMPUTED),
                None => self.function.map(|function| function.form()),
            },
            computed: self.computed.as_deref().map(PartitionExpr::form),
            has_columns_word: self.has_columns_word,
            auto: self.auto.map(|auto| match auto {
                AutoPartition::Value => AutoForm::Value(()),
                AutoPartition::Period(unit) => AutoForm::Period(unit.form()),
            }),
        }
    }

    fn from_form(form: PartitionByForm) -> Result<Self, Unreadable> {
        ensure(!form.columns.is_empty(), "it is divided by no column")?;
        let method = PartitionMethod::from_form(form.method)?;
        let auto = match form.auto {
            None => None,
            Some(AutoForm::Value(())) => Some(AutoPartition::Value),
            Some(AutoForm::Period(unit)) => Some(AutoPartition::Period(TimeUnit::from_form(unit)?)),
        };
        let makes = match auto {
            None => true,
            Some(AutoPartition::Value) => method == PartitionMethod::List,
            Some(AutoPartition::Period(_)) => {
                method == PartitionMethod::Range && form.columns.len() == 1
            }
        };
        ensure(makes, "its partitions are not what is made for its rows")?;
        let function = form.function.filter(|number| *number != COMPUTED);
        let is_computed = form.computed.is_some();
        let fits = !is_computed || form.columns.len() == 1 && auto.is_none();
        ensure(fits, "an expression divides it that is not of its column")?;
        let is_told = is_computed == (form.function == Some(COMPUTED));
        ensure(is_told, "it is divided by an expression that it lacks")?;
        Ok(Self {
            method,
            auto,
            columns: form.columns.into_iter().map(ColumnId).collect(),
            function: function.map(PartitionFunction::from_form).transpose()?,
            computed: form.computed.map(PartitionExpr::from_form).transpose()?.map(Box::new),
            has_columns_word: form.has_columns_word,
        })
    }
}

impl OnDisk for PartitionValues {
    type Form = ValuesForm;

    fn form(&self) -> ValuesForm {
        let key = |key: &PartitionKey| KeyForm { columns: key.clone() };
        match self {
            Self::Range { lower, upper } => ValuesForm {
                lower: lower.as_ref().map(key),
                upper: Some(key(upper)),
                ..ValuesForm::default()
            },
            Self::List(keys) => {
                ValuesForm { list: keys.iter().map(key).collect(), ..ValuesForm::default() }
            }
            Self::Others(listed) => ValuesForm {
                list: listed.iter().map(key).collect(),
                others: true,
                ..ValuesForm::default()
            },
        }
    }

    fn from_form(form: ValuesForm) -> Result<Self, Unreadable> {
        let key = |form: KeyForm| form.columns;
        match form.upper {
            Some(upper) => {
                let is_range = form.list.is_empty() && !form.others;
                ensure(is_range, "a partition is a range and a list")?;
                Ok(Self::Range { lower: form.lower.map(key), upper: key(upper) })
            }
            None => {
                ensure(form.lower.is_none(), "a range has no upper bound")?;
                let keys = form.list.into_iter().map(key).collect();
                Ok(if form.others { Self::Others(keys) } else { Self::List(keys) })
            }
        }
    }
}

impl OnDisk for Repartition {
    type Form = RepartitionForm;

    fn form(&self) -> RepartitionForm {
        RepartitionForm {
            by: Some(self.by.form()),
            partitions: forms(&self.partitions),
            removed: forms(&self.removed),
            files: forms(&self.files),
            rests_micros: self.rests_micros,
            forgotten: self.forgotten.iter().map(|id| id.get()).collect(),
        }
    }

    fn from_form(form: RepartitionForm) -> Result<Self, Unreadable> {
        let by = required::<PartitionBy>(form.by, "clause")?;
        let partitions = from_forms::<Partition>(form.partitions)?;
        let is_whole = partitions.iter().all(|one| one.values.is_none());
        check_partitions((!is_whole).then_some(&by), &partitions)?;
        let files = from_forms(form.files)?;
        let forgotten = form.forgotten.into_iter().map(PartitionId).collect();
        let (removed, rests_micros) = (from_forms(form.removed)?, form.rests_micros);
        Ok(Self { by, partitions, removed, files, rests_micros, forgotten })
    }
}

/// Of several tables, at one place of the log.
impl OnDisk for Vec<Repartition> {
    type Form = RepartitionsForm;

    fn form(&self) -> RepartitionsForm {
        RepartitionsForm { changes: forms(self) }
    }

    fn from_form(form: RepartitionsForm) -> Result<Self, Unreadable> {
        from_forms(form.changes)
    }
}

/// The partitions of a table, as a definition of their own.
pub(super) fn partitions_form(partitions: &[Partition]) -> PartitionsForm {
    PartitionsForm { partitions: forms(partitions) }
}

pub(super) fn from_partitions_form(form: PartitionsForm) -> Result<Vec<Partition>, Unreadable> {
    let partitions = from_forms(form.partitions)?;
    check_alike(&partitions)?;
    Ok(partitions)
}

/// Checks what partitions say of each other, whatever divides them.
fn check_alike(partitions: &[Partition]) -> Result<(), Unreadable> {
    let Some(first) = partitions.first() else {
        return ensure(false, "it has no partition");
    };
    let alike = |one: &Partition| one.incarnation == first.incarnation;
    ensure(partitions.iter().all(alike), "its partitions differ in incarnation")?;
    let is_range = |values: &PartitionValues| matches!(values, PartitionValues::Range { .. });
    let kind = |one: &Partition| one.values.as_ref().map(is_range);
    let of_one_kind = partitions.iter().all(|one| kind(one) == kind(first));
    ensure(of_one_kind, "its partitions are divided in several ways")
}

/// Checks what partitions say of each other.
pub(super) fn check_partitions(
    by: Option<&PartitionBy>,
    partitions: &[Partition],
) -> Result<(), Unreadable> {
    check_alike(partitions)?;
    let Some(first) = partitions.first() else {
        return ensure(false, "it has no partition");
    };
    let Some(by) = by else {
        let is_whole = partitions.len() == 1 && first.values.is_none();
        return ensure(is_whole, "it has partitions that nothing divides");
    };
    let columns = by.columns.len();
    let fits = |one: &Partition| match (by.method, &one.values) {
        (PartitionMethod::Range, Some(PartitionValues::Range { lower, upper })) => {
            upper.len() <= columns && lower.as_ref().is_none_or(|lower| lower.len() <= columns)
        }
        (
            PartitionMethod::List,
            Some(PartitionValues::List(keys) | PartitionValues::Others(keys)),
        ) => keys.iter().all(|key| key.len() == columns),
        _ => false,
    };
    ensure(partitions.iter().all(fits), "its partitions are not what divides it")
}

#[cfg(test)]
mod tests {
    use freshet_base::TableId;

    use super::super::{decode, encode};
    use super::*;
    use crate::fold::{Divide, MetaEvent};

    #[test]
    fn tables_that_exchange_partitions_have_a_form() {
        let partitions = vec![Partition {
            id: PartitionId(8),
            name: "p".to_owned(),
            incarnation: Incarnation(1),
            tablets: vec![TabletId(10)],
            values: None,
        }];
        let (table, forgotten) = (TableId(7), Vec::new());
        let change =
            Divide { table, partitions: partitions.clone(), rests_micros: None, forgotten };
        let event = MetaEvent::Divide(vec![change.clone()]);
        let bytes = encode(&event);
        let of_partition = [8, 8, 0x12, 1, b'p', 0x18, 1, 0x22, 1, 10];
        let head = [1, 0xfa, 1, 18, 10, 16, 8, 7, 0x12, 12, 10, 10];
        assert_eq!(bytes, [&head[..], &of_partition].concat());
        assert_eq!(decode::<MetaEvent>(&bytes).unwrap(), event);
        let (rests_micros, forgotten) = (Some(9), vec![PartitionId(3)]);
        let event = MetaEvent::Divide(vec![Divide { rests_micros, forgotten, ..change }]);
        let bytes = encode(&event);
        assert_eq!(bytes[bytes.len() - 5..], [0x18, 9, 0x22, 1, 3]);
        assert_eq!(decode::<MetaEvent>(&bytes).unwrap(), event);
        let by = PartitionBy {
            method: PartitionMethod::Range,
            columns: vec![ColumnId(1)],
            function: None,
            computed: None,
            has_columns_word: false,
            auto: None,
        };
        let removed = partitions.clone();
        let change = Repartition { removed, ..Repartition::of(by, partitions) };
        let changes = vec![change.clone(), change];
        let bytes = encode(&changes);
        assert_eq!(bytes[..5], [1, 10, 31, 10, 5]);
        assert_eq!(decode::<Vec<Repartition>>(&bytes).unwrap(), changes);
    }

    fn computed(of: ColumnType, steps: &[Step]) -> PartitionBy {
        PartitionBy {
            method: PartitionMethod::List,
            columns: vec![ColumnId(1)],
            function: None,
            computed: Some(Box::new(PartitionExpr {
                text: "t".to_owned(),
                steps: steps.to_vec(),
                of,
                nullable: false,
                numbers: Column::new(ColumnId(1), "a", ColumnType::BigInt { unsigned: false }),
            })),
            has_columns_word: false,
            auto: None,
        }
    }

    #[test]
    fn parts_of_dates_have_numbers_for_good() {
        let parts = [
            DatePart::Year,
            DatePart::Quarter,
            DatePart::Month,
            DatePart::Day,
            DatePart::DayOfYear,
            DatePart::DayOfWeek,
            DatePart::Weekday,
            DatePart::ToDays,
            DatePart::ToSeconds,
            DatePart::Hour,
            DatePart::Minute,
            DatePart::Second,
            DatePart::Microsecond,
        ];
        assert_eq!(parts.map(|part| part.form()).to_vec(), (1..=13).collect::<Vec<_>>());
    }

    #[test]
    fn an_expression_that_divides_has_a_form_that_older_versions_refuse() {
        use Step::{Absolute, Add, Divide, Modulo, Multiply, Negate, Number, Subtract, Value};
        let numbers = computed(
            ColumnType::Int { unsigned: true },
            &[
                Value,
                Number(-7),
                Add,
                Value,
                Subtract,
                Value,
                Multiply,
                Number(2),
                Divide,
                Number(3),
                Modulo,
                Negate,
                Absolute,
            ],
        );
        let month = computed(ColumnType::Date, &[Step::Part(DatePart::Month)]);
        for by in [&numbers, &month] {
            assert_eq!(PartitionBy::from_form(by.form()).unwrap(), *by);
            assert!(PartitionFunction::from_form(by.form().function.unwrap()).is_err());
        }
        let steps = numbers.form().computed.unwrap().steps;
        let kinds = steps.iter().map(|step| (step.kind, step.operand)).collect::<Vec<_>>();
        let wanted = [
            (1, 0),
            (2, -7),
            (4, 0),
            (1, 0),
            (5, 0),
            (1, 0),
            (6, 0),
            (2, 2),
            (7, 0),
            (2, 3),
            (8, 0),
            (9, 0),
            (10, 0),
        ];
        assert_eq!(kinds, wanted);
        assert_eq!(month.form().computed.unwrap().steps, [StepForm { kind: 3, operand: 3 }]);
        let lacks = PartitionByForm { computed: None, ..month.form() };
        assert!(PartitionBy::from_form(lacks).is_err());
        let wrong = computed(ColumnType::Int { unsigned: true }, &[Step::Part(DatePart::Month)]);
        assert!(PartitionBy::from_form(wrong.form()).is_err());
    }

    #[test]
    fn a_definition_without_partitions_is_refused() {
        assert!(from_partitions_form(PartitionsForm { partitions: Vec::new() }).is_err());
        let one = |incarnation, values| PartitionForm {
            id: 1,
            name: "p".to_owned(),
            incarnation,
            tablets: vec![1],
            values,
        };
        let list = ValuesForm::default();
        let upper = Some(KeyForm { columns: Vec::new() });
        let range = ValuesForm { upper, ..ValuesForm::default() };
        for partitions in [
            vec![one(1, None), one(2, None)],
            vec![one(1, Some(list.clone())), one(1, Some(range))],
            vec![one(1, Some(list)), one(1, None)],
        ] {
            assert!(from_partitions_form(PartitionsForm { partitions }).is_err());
        }
        assert!(from_partitions_form(PartitionsForm { partitions: vec![one(1, None)] }).is_ok());
    }
}
