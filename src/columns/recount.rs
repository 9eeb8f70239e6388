//! Evidence of records that went straight to their columns: what is in the columns says what was in the records.

use arrow::array::{Array, ArrayRef, AsArray, StructArray};
use arrow::datatypes::Float64Type;

use super::evidence::{Evidence, Kinds};
use crate::domain::schema::{Column, Role, Type};

impl Evidence {
    /// Counts the values of those of the `rows` (of `columns`) that are `counted`.
    ///
    /// The shredder let records go straight only where this gives what [`observe`](Evidence::observe) would: each value's path has been observed, and its
    /// kind follows from its column ([`Shredder::learn`](super::shred::Shredder::learn)).
    pub fn recount(&mut self, columns: &[Column], rows: &StructArray, counted: &[bool]) {
        self.recount_members(0, columns, rows, counted);
    }

    /// Counts the members of a struct; which rows have any that says something.
    fn recount_members(&mut self, node: u32, columns: &[Column], rows: &StructArray, counted: &[bool]) -> Vec<bool> {
        let mut any = vec![false; counted.len()];
        for (column, array) in columns.iter().zip(rows.columns()) {
            if column.role != Role::Value || array.null_count() == array.len() {
                continue;
            }
            let Some(member) = self.member(node, column.key()) else { continue };
            let says = self.recount_column(Some(member), column, array, counted);
            any.iter_mut().zip(says).for_each(|(any, says)| *any |= says);
        }
        any
    }

    /// Counts a column's values, if there is a path to count them at; which of them say something.
    fn recount_column(&mut self, node: Option<u32>, column: &Column, array: &ArrayRef, counted: &[bool]) -> Vec<bool> {
        let counted: Vec<bool> = counted.iter().enumerate().map(|(row, counted)| *counted && array.is_valid(row)).collect();
        let mut kinds = Kinds::default();
        let count = |says: &[bool]| says.iter().filter(|says| **says).count() as u64;
        let says = match &column.column_type {
            Type::Struct(members) => {
                let says = match node {
                    Some(node) => self.recount_members(node, members, array.as_struct(), &counted),
                    // Without a path no member went straight in.
                    None => vec![false; counted.len()],
                };
                kinds.objects = count(&says);
                says
            }
            Type::List(element) => {
                let says = self.recount_elements(node, element, array, &counted);
                kinds.lists = count(&says);
                says
            }
            Type::Boolean => {
                kinds.booleans = count(&counted);
                counted
            }
            Type::String => {
                kinds.texts = count(&counted);
                counted
            }
            Type::Int64 => {
                kinds.numbers = count(&counted);
                counted
            }
            Type::Double => {
                kinds.numbers = count(&counted);
                let values = array.as_primitive::<Float64Type>().values();
                kinds.not_int64 =
                    values.iter().zip(&counted).filter(|(value, counted)| **counted && value.fract() != 0.0).count() as u64;
                counted
            }
            // Only declared columns are: nothing about them can change.
            Type::Timestamp => counted,
        };
        if let Some(node) = node {
            self.add_kinds(node, &kinds);
        }
        says
    }

    fn recount_elements(&mut self, node: Option<u32>, element: &Column, array: &ArrayRef, counted: &[bool]) -> Vec<bool> {
        let list = array.as_list::<i32>();
        let place = |offset: &i32| usize::try_from(*offset).unwrap_or_default();
        let offsets = list.value_offsets();
        let first = offsets.first().map(place).unwrap_or_default();
        let last = offsets.last().map(place).unwrap_or_default();
        let values = list.values().slice(first, last - first);
        let mut of_elements = vec![false; last - first];
        let ranges = || offsets.iter().zip(offsets.iter().skip(1)).map(|(from, to)| place(from) - first..place(to) - first);
        for (range, _) in ranges().zip(counted).filter(|(_, counted)| **counted) {
            of_elements.get_mut(range).unwrap_or_default().fill(true);
        }
        let inner = node.and_then(|node| self.node(node)?.element);
        let says = self.recount_column(inner, element, &values, &of_elements);
        ranges().map(|range| says.get(range).unwrap_or_default().contains(&true)).collect()
    }
}
