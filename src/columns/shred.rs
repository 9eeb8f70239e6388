//! From a record's tape to the columns of its table: one walk appends each value to its builder.

use std::collections::HashMap;

use arrow::array::StructArray;

use super::builder::{Builder, Fit, Scope};
use super::direct::Walk;
use super::evidence::Evidence;
use super::fields::TypedSchema;
use super::rescue::Rescue;
use crate::domain::schema::{Column, Role, TableSchema};
use crate::records::json::Tape;
use crate::records::route::{Found, Rules, Watch};

/// Appends records to the columns of one table and gives them back as Arrow arrays.
///
/// Every record becomes one row, whatever is in it: a value that does not fit its column is null there and kept, verbatim, in the rescue
/// column; a key without a column likewise. Memory grows with the records' bytes alone.
#[derive(Debug)]
pub struct Shredder {
    root: Builder,
    /// The top-level columns that rules ask for.
    watch: Vec<Watch>,
    /// While the records are evidence: of each row, whether it went straight and is still to be counted.
    straight: Option<Vec<bool>>,
    /// How many paths the evidence knew when it was last looked at.
    learnt: usize,
    rescue_column: Option<usize>,
    rescue: Rescue,
    rescued: HashMap<String, u64>,
    scratch: Vec<u8>,
    record_had_surprise: bool,
}

/// What a shredder's records came to.
#[derive(Debug)]
pub struct Shredded {
    /// The rows: a struct array of the schema's columns, in its order.
    pub rows: StructArray,
    /// If the records are evidence: of each row whether [`Evidence::recount`] is still to count it.
    pub straight: Option<Vec<bool>>,
    /// How many values were rescued, by the JSON Pointer of each (at most 1,000 pointers are told apart, the rest is under the empty one).
    pub rescued: HashMap<String, u64>,
}

/// The most pointers whose rescued values are counted each for itself.
const MOST_POINTERS: usize = 1_000;

impl Shredder {
    /// A shredder of that schema's columns.
    #[must_use]
    pub fn new(schema: &TypedSchema) -> Shredder {
        let rescue_column = schema.columns.iter().position(|column| column.role == Role::Rescue);
        Shredder {
            root: Builder::root(schema),
            watch: Vec::new(),
            straight: None,
            learnt: 0,
            rescue_column,
            rescue: Rescue::default(),
            rescued: HashMap::new(),
            scratch: Vec::new(),
            record_had_surprise: false,
        }
    }

    /// Has [`append_direct`](Shredder::append_direct) find the values that rules ask for.
    #[must_use]
    pub fn watching(mut self, schema: &TableSchema, rules: &Rules) -> Shredder {
        let columns = schema.columns.iter();
        let watch =
            |column: &Column| if column.role == Role::Value { rules.watch(column.key().as_bytes()) } else { Watch::default() };
        self.watch = columns.map(watch).collect();
        self
    }

    /// Says that the records are evidence: they go straight only while [`Evidence::recount`] can count them afterwards.
    #[must_use]
    pub fn observing(mut self) -> Shredder {
        self.straight = Some(Vec::new());
        self
    }

    /// Looks at what the evidence of the rows so far knows, which the record that was last appended by tape has been added to.
    pub fn learn(&mut self, evidence: &Evidence) {
        if self.learnt != evidence.paths() {
            self.learnt = evidence.paths();
            self.root.learn(Some(evidence), 0);
        }
    }

    /// Appends the record that `text` (valid UTF-8) is, straight from its bytes, and gives the values that rules ask for. The row is in the
    /// making then: [`keep`](Shredder::keep) or [`drop_row`](Shredder::drop_row) must follow.
    ///
    /// `None`, and nothing is appended, if it takes a tape: where the record holds anything but what the schema expects, spelt as usual; or is none, or
    /// is deeper than `max_depth`, or needs a repair. What is appended is what [`append`](Shredder::append) would.
    pub fn append_direct(&mut self, text: &[u8], max_depth: usize) -> Option<Found> {
        let mut found = Found::default();
        let is_evidence = self.straight.is_some();
        let mut walk = Walk { buffer: text, max_depth, watch: &self.watch, found: &mut found, is_evidence };
        if text.first() == Some(&b'{') && self.root.take_members::<true>(1, 1, &mut walk) == Some(text.len()) {
            return Some(found);
        }
        self.drop_row();
        None
    }

    /// Keeps the row in the making.
    pub fn keep(&mut self) {
        if let Some(straight) = &mut self.straight {
            straight.push(true);
        }
        self.root.end_row();
    }

    /// Cuts the row in the making off.
    pub fn drop_row(&mut self) {
        self.root.truncate(self.root.len());
    }

    /// Appends the record on `tape`, an object, as one row.
    ///
    /// `time` is where a value starts and its instant, when the caller has read it already. Returns whether the record holds something
    /// that could change the schema: a key without a column, or a fraction in an `int64` column that was learned.
    pub fn append(&mut self, tape: &mut Tape, buffer: &[u8], time: Option<(u32, i64)>) -> bool {
        self.record_had_surprise = false;
        if self.walk(tape, buffer, time) == Fit::Repeat {
            // Rare: a key stands twice in one object, and the last one counts. Marked, the walk passes the others over.
            tape.drop_repeats(buffer);
            self.drop_row();
            self.walk(tape, buffer, time);
        }
        if self.rescue.count() > 0 {
            for pointer in self.rescue.pointers() {
                let told_apart = self.rescued.len() < MOST_POINTERS || self.rescued.contains_key(pointer);
                let pointer = if told_apart { pointer.clone() } else { String::new() };
                *self.rescued.entry(pointer).or_default() += 1;
            }
            if let Some(column) = self.rescue_column {
                self.root.append_text_at(column, self.rescue.finish());
            }
        }
        if let Some(straight) = &mut self.straight {
            straight.push(false);
        }
        self.root.end_row();
        self.record_had_surprise
    }

    fn walk(&mut self, tape: &Tape, buffer: &[u8], time: Option<(u32, i64)>) -> Fit {
        self.rescue.clear();
        let mut scope = Scope {
            tape,
            buffer,
            time,
            rescue: &mut self.rescue,
            scratch: &mut self.scratch,
            surprise: &mut self.record_had_surprise,
            in_list: false,
        };
        self.root.members_of(0, None, &mut scope)
    }

    /// Drops the rows that wait and starts anew. Gives how many values of them were rescued, as [`Shredded`] has it; and, if they are evidence,
    /// of each whether it is still to be counted.
    pub fn discard(&mut self) -> (HashMap<String, u64>, Option<Vec<bool>>) {
        self.root.truncate(0);
        self.forget_evidence();
        (std::mem::take(&mut self.rescued), self.straight.as_mut().map(std::mem::take))
    }

    fn forget_evidence(&mut self) {
        if self.learnt > 0 {
            self.root.learn(None, 0);
            self.learnt = 0;
        }
    }

    /// The number of rows that wait.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.root.len()
    }

    /// Gives the rows and starts anew.
    ///
    /// Fails only where a column passes what 32-bit offsets can address (2 GiB of text in one batch), which the sizes of a batch forbid.
    pub fn finish(&mut self) -> Result<Shredded, arrow::error::ArrowError> {
        let rows = self.root.finish_root()?;
        self.forget_evidence();
        let straight = self.straight.as_mut().map(std::mem::take);
        Ok(Shredded { rows, straight, rescued: std::mem::take(&mut self.rescued) })
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, AsArray};
    use arrow::datatypes::{DataType, Float64Type, Int64Type};

    use super::*;
    use crate::columns::evidence::Limits;
    use crate::columns::pin::{Given, base_schema, decide, versioned};
    use crate::domain::run::Day;
    use crate::domain::schema::{Declared, DeclaredType, Type};

    const LIMITS: Limits = Limits { max_columns: 2000, max_fields: 200, max_column_depth: 12 };

    fn day() -> Day {
        "2026-01-15".parse().unwrap()
    }

    /// The run's schema and rows of these records, over the pinned columns.
    fn run_with(
        pinned: Option<&TableSchema>,
        declared: &[Declared],
        limits: Limits,
        records: &[&str],
    ) -> (TableSchema, Shredded) {
        let given = Given { declared, rescue_column: "_rescued_data", transfer_columns: false, day: day() };
        let base = base_schema(pinned, &given).unwrap();
        let mut evidence = Evidence::new(&base, limits);
        let mut tape = Tape::default();
        for record in records {
            tape.read(record.as_bytes(), 0, 64).unwrap();
            evidence.observe(&mut tape, record.as_bytes());
        }
        let schema = versioned(decide(&base, &evidence, None, "_rescued_data", day()), pinned);
        let mut shredder = Shredder::new(&TypedSchema::new(schema.clone()));
        for record in records {
            tape.read(record.as_bytes(), 0, 64).unwrap();
            shredder.append(&mut tape, record.as_bytes(), None);
        }
        let shredded = shredder.finish().unwrap();
        (schema, shredded)
    }

    fn run(records: &[&str]) -> (TableSchema, Shredded) {
        run_with(None, &[], LIMITS, records)
    }

    /// The columns as `name:type name:type`, structs with their members in braces.
    fn shape(schema: &TableSchema) -> String {
        fn of(columns: &[crate::domain::schema::Column]) -> String {
            let each = |column: &crate::domain::schema::Column| match &column.column_type {
                Type::Struct(members) => format!("{}{{{}}}", column.name, of(members)),
                Type::List(element) => match &element.column_type {
                    Type::Struct(members) => format!("{}[{{{}}}]", column.name, of(members)),
                    other => format!("{}[{}]", column.name, other.name()),
                },
                other => format!("{}:{}", column.name, other.name()),
            };
            columns.iter().map(each).collect::<Vec<_>>().join(" ")
        }
        of(&schema.columns).replacen("_rescued_data:string", "", 1).trim().to_owned()
    }

    fn rescued(shredded: &Shredded) -> Vec<Option<String>> {
        let column = shredded.rows.column_by_name("_rescued_data").unwrap().as_string::<i32>();
        column.iter().map(|text| text.map(str::to_owned)).collect()
    }

    fn ints(shredded: &Shredded, column: &str) -> Vec<Option<i64>> {
        shredded.rows.column_by_name(column).unwrap().as_primitive::<Int64Type>().iter().collect()
    }

    fn doubles(shredded: &Shredded, column: &str) -> Vec<Option<f64>> {
        shredded.rows.column_by_name(column).unwrap().as_primitive::<Float64Type>().iter().collect()
    }

    fn texts(shredded: &Shredded, column: &str) -> Vec<Option<String>> {
        shredded.rows.column_by_name(column).unwrap().as_string::<i32>().iter().map(|text| text.map(str::to_owned)).collect()
    }

    #[test]
    fn the_kind_that_most_values_have_decides_and_the_others_are_rescued() {
        let (schema, rows) = run(&[
            r#"{"a":1,"b":"x","c":true}"#,
            r#"{"a":"n/a","b":2,"c":[]}"#,
            r#"{"a":3,"b":"y","c":{"x":1}}"#,
            r#"{"c":false}"#,
        ]);
        assert_eq!(shape(&schema), "a:int64 b:string c:boolean");
        assert_eq!(ints(&rows, "a"), [Some(1), None, Some(3), None]);
        assert_eq!(texts(&rows, "b"), [Some("x".into()), Some("2".into()), Some("y".into()), None]);
        assert_eq!(rescued(&rows), [None, Some(r#"{"/a":"n/a","/c":[]}"#.into()), Some(r#"{"/c":{"x":1}}"#.into()), None]);
        assert_eq!(rows.rescued.get("/c"), Some(&2));
    }

    #[test]
    fn a_tie_is_a_string_that_holds_the_json_text() {
        let (schema, rows) = run(&[r#"{"a":1.50}"#, r#"{"a":{"b": [1, 2]}}"#]);
        assert_eq!(shape(&schema), "a:string");
        assert_eq!(texts(&rows, "a"), [Some("1.50".into()), Some(r#"{"b": [1, 2]}"#.into())]);
        assert_eq!(rescued(&rows), [None, None]);
    }

    #[test]
    fn one_fraction_makes_a_new_column_double_and_whole_numbers_stay_exact() {
        let (schema, rows) = run(&[r#"{"a":1,"b":6.7E8}"#, r#"{"a":0.5,"b":1.0}"#, r#"{"a":9007199254740993}"#]);
        assert_eq!(shape(&schema), "a:double b:int64");
        assert_eq!(doubles(&rows, "a"), [Some(1.0), Some(0.5), None]);
        assert_eq!(ints(&rows, "b"), [Some(670_000_000), Some(1), None]);
        assert_eq!(rescued(&rows), [None, None, Some(r#"{"/a":9007199254740993}"#.into())]);
    }

    #[test]
    fn nothing_is_no_evidence_and_makes_no_column() {
        let (schema, rows) = run(&[r#"{"a":null,"b":{},"c":[],"d":[null,{}],"e":{"f":null}}"#, r#"{"g":1,"e":{"f":[[]]}}"#]);
        assert_eq!(shape(&schema), "g:int64");
        assert_eq!(rescued(&rows), [None, None]);
    }

    #[test]
    fn a_learned_int64_column_gets_a_sibling_when_a_fraction_comes_later() {
        let (first, _) = run(&[r#"{"p":{"price":5}}"#]);
        let (schema, rows) =
            run_with(Some(&first), &[], LIMITS, &[r#"{"p":{"price":5.25}}"#, r#"{"p":{"price":7}}"#, r#"{"p":{"price":1e400}}"#]);
        assert_eq!(shape(&schema), "p{price:int64 price_double:double}");
        assert_eq!((first.version, schema.version), (1, 2));
        let p = rows.rows.column_by_name("p").unwrap().as_struct();
        assert_eq!(p.column(0).as_primitive::<Int64Type>().iter().collect::<Vec<_>>(), [None, Some(7), None]);
        assert_eq!(p.column(1).as_primitive::<Float64Type>().iter().collect::<Vec<_>>(), [Some(5.25), Some(7.0), None]);
        assert_eq!(rescued(&rows), [None, None, Some(r#"{"/p/price":1e400}"#.into())]);
        let (again, _) = run_with(Some(&schema), &[], LIMITS, &[r#"{"p":{"price":0.5}}"#]);
        assert_eq!((again.version, again.columns), (2, schema.columns));
    }

    #[test]
    fn within_a_list_there_is_no_sibling_and_the_list_is_rescued() {
        // Structs within lists used to get one, in which other rows' whole numbers then stood twice.
        let (first, _) = run(&[r#"{"l":[{"n":5}],"m":[1]}"#]);
        let (schema, rows) = run_with(Some(&first), &[], LIMITS, &[r#"{"l":[{"n":1},{"n":0.5}],"m":[0.5]}"#]);
        assert_eq!(shape(&schema), "l[{n:int64}] m[int64]");
        assert_eq!(rescued(&rows), [Some(r#"{"/l":[{"n":1},{"n":0.5}],"/m":[0.5]}"#.into())]);
    }

    #[test]
    fn what_was_not_walked_to_its_end_may_hold_a_new_member_and_says_so() {
        // On an ordinary day only records that surprise are evidence, and these did not: their new members had fewer values than they had.
        let (schema, _) = run(&[r#"{"l":[{"n":5}],"o":{"n":1},"m":[1]}"#]);
        let mut shredder = Shredder::new(&TypedSchema::new(schema));
        let mut tape = Tape::default();
        for (record, surprises) in [
            (r#"{"l":["x",{"new":1}]}"#, true),
            (r#"{"o":{"n":2},"O":{"new":1}}"#, true),
            (r#"{"m":["x",{"new":1}]}"#, false),
            (r#"{"l":[{"n":5}],"o":{},"O":null}"#, false),
        ] {
            tape.read(record.as_bytes(), 0, 64).unwrap();
            assert_eq!(shredder.append(&mut tape, record.as_bytes(), None), surprises, "{record}");
        }
    }

    #[test]
    fn a_last_value_that_says_nothing_overrides_too() {
        // The overridden value used to land: it was rescued, or counted, before its repeat was passed over as null.
        let (schema, rows) = run(&[r#"{"a":1,"a":null,"b":1}"#, r#"{"x":{"y":1},"x":[],"b":2}"#, r#"{"B":4,"B":null,"b":3}"#]);
        assert_eq!(shape(&schema), "b:int64");
        assert_eq!(rescued(&rows), [None, None, None]);
        let (first, _) = run(&[r#"{"a":1}"#]);
        let (_, rows) = run_with(Some(&first), &[], LIMITS, &[r#"{"A":1,"A":2}"#, r#"{"a":1,"\u0061":null}"#]);
        assert_eq!(ints(&rows, "a"), [Some(2), None]);
        assert_eq!(rescued(&rows), [None, None]);
    }

    #[test]
    fn a_sibling_whose_name_is_taken_gets_the_hash() {
        let (first, _) = run(&[r#"{"a":1,"A_Double":"x"}"#]);
        let (schema, _) = run_with(Some(&first), &[], LIMITS, &[r#"{"a":0.5}"#]);
        assert_eq!(schema.columns.last().unwrap().name, format!("a_double_{}", crate::domain::table::hash8("a")));
    }

    #[test]
    fn new_columns_go_last_at_every_depth_and_ids_stay() {
        let (first, _) = run(&[r#"{"d":{"os":"A","list":[{"x":1}]},"z":1}"#]);
        let (second, _) =
            run_with(Some(&first), &[], LIMITS, &[r#"{"a":1,"d":{"model":"M","os":"A","list":[{"w":"q","x":1}]},"z":1}"#]);
        assert_eq!(shape(&first), "d{os:string list[{x:int64}]} z:int64");
        assert_eq!(shape(&second), "d{os:string list[{x:int64 w:string}] model:string} z:int64 a:int64");
        assert_eq!(second.columns[0], first.columns[0]);
        assert_eq!(second.columns[1].id, first.columns[1].id);
        assert_eq!(second.next_id, first.next_id + 3);
    }

    #[test]
    fn a_list_whose_elements_do_not_fit_is_rescued_whole_and_leaves_nothing_behind() {
        let (schema, rows) = run(&[
            r#"{"a":[1,2],"s":[{"x":1,"t":"u"}]}"#,
            r#"{"a":[3,"x",4],"s":[{"x":2},{"x":"no"}]}"#,
            r#"{"a":[5],"s":[{"x":3},null,{"t":"v"}]}"#,
            r#"{"a":"bare","s":[]}"#,
        ]);
        assert_eq!(shape(&schema), "a[int64] s[{x:int64 t:string}]");
        assert_eq!(
            rescued(&rows),
            [None, Some(r#"{"/a":[3,"x",4],"/s":[{"x":2},{"x":"no"}]}"#.into()), None, Some(r#"{"/a":"bare"}"#.into())]
        );
        let lists = rows.rows.column_by_name("a").unwrap().as_list::<i32>();
        let values: Vec<Vec<i64>> =
            lists.iter().map(|list| list.map_or(vec![], |list| list.as_primitive::<Int64Type>().values().to_vec())).collect();
        assert_eq!(values, [vec![1, 2], vec![], vec![5], vec![]]);
        assert_eq!(lists.values().len(), 3);
        let structs = rows.rows.column_by_name("s").unwrap().as_list::<i32>();
        assert_eq!(structs.values().len(), 4);
    }

    #[test]
    fn the_last_of_repeated_keys_counts_known_or_not() {
        let (schema, rows) = run(&[r#"{"a":1,"a":2,"b":{"c":"x","c":null},"\u0061":3}"#, r#"{"b":{"c":"y"}}"#]);
        assert_eq!(shape(&schema), "a:int64 b{c:string}");
        assert_eq!(ints(&rows, "a"), [Some(3), None]);
        let (pinned, _) = run(&[r#"{"a":1}"#]);
        let none = Limits { max_columns: 0, ..LIMITS };
        let (_, rows) = run_with(Some(&pinned), &[], none, &[r#"{"n":1,"a":"q","n":2,"a":"r"}"#]);
        assert_eq!(rescued(&rows), [Some(r#"{"/n":2,"/a":"r"}"#.into())]);
    }

    #[test]
    fn a_key_that_differs_in_case_fills_the_column_only_where_the_exact_key_is_absent() {
        let (schema, rows) =
            run(&[r#"{"Url":"/A","url":"/a"}"#, r#"{"URL":"/B"}"#, r#"{"Url":null,"url":"/c"}"#, r#"{"uRl":"/d","URL":"/e"}"#]);
        assert_eq!(shape(&schema), "Url:string");
        assert_eq!(texts(&rows, "Url"), [Some("/A".into()), Some("/B".into()), None, Some("/d".into())]);
        assert_eq!(
            rescued(&rows),
            [Some(r#"{"/url":"/a"}"#.into()), None, Some(r#"{"/url":"/c"}"#.into()), Some(r#"{"/URL":"/e"}"#.into())]
        );
    }

    #[test]
    fn declared_columns_come_first_and_take_literal_strings() {
        let declared = [
            Declared { path: vec!["time".into()], column_type: DeclaredType::Timestamp },
            Declared { path: vec!["p".into(), "price".into()], column_type: DeclaredType::Double },
            Declared { path: vec!["n".into()], column_type: DeclaredType::Int64 },
            Declared { path: vec!["ok".into()], column_type: DeclaredType::Boolean },
        ];
        let (schema, rows) = run_with(
            None,
            &declared,
            LIMITS,
            &[
                r#"{"x":1,"time":"2026-01-15T10:00:00.123456789Z","p":{"price":"1.5","q":1},"n":"12","ok":"true"}"#,
                r#"{"time":"soon","p":{"price":"1.5 "},"n":1.5,"ok":"yes"}"#,
                r#"{"time":1768471200,"p":7,"n":"1e2","ok":false}"#,
            ],
        );
        assert_eq!(shape(&schema), "time:timestamp p{price:double q:int64} n:int64 ok:boolean  x:int64");
        assert_eq!(
            rescued(&rows),
            [None, Some(r#"{"/time":"soon","/p/price":"1.5 ","/n":1.5,"/ok":"yes"}"#.into()), Some(r#"{"/p":7}"#.into())]
        );
        assert_eq!(ints(&rows, "n"), [Some(12), None, Some(100)]);
        let time = rows.rows.column_by_name("time").unwrap();
        assert!(matches!(time.data_type(), DataType::Timestamp(_, Some(zone)) if &**zone == "UTC"));
        let contradicting = [Declared { path: vec!["n".into()], column_type: DeclaredType::String }];
        let given = Given { declared: &contradicting, rescue_column: "_rescued_data", transfer_columns: false, day: day() };
        assert!(base_schema(Some(&schema), &given).unwrap_err().to_string().contains("`n`"));
    }

    #[test]
    fn odd_keys_keep_their_values_each_under_its_own_name() {
        let (schema, rows) = run(&[r#"{"a.b":1,"a":{"b":2},"":3,"9":4,"year":5,"~/x":"t","e s":6,"e-s":7}"#]);
        let names: Vec<&str> = schema.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names.len(), 9);
        let distinct: std::collections::BTreeSet<String> = names.iter().map(|name| name.to_lowercase()).collect();
        assert_eq!(distinct.len(), 9);
        assert!(names.iter().all(|name| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')));
        assert_eq!(rescued(&rows), [None]);
        let none = Limits { max_columns: 0, ..LIMITS };
        let (_, rows) = run_with(None, &[], none, &[r#"{"~/x":{"\u0022q":1}}"#]);
        assert_eq!(rescued(&rows), [Some(r#"{"/~0~1x":{"\u0022q":1}}"#.into())]);
    }

    #[test]
    fn budgets_go_to_the_first_paths_of_the_input_and_the_rest_is_rescued() {
        let few = Limits { max_columns: 3, max_fields: 2, max_column_depth: 2 };
        let (schema, rows) = run_with(None, &[], few, &[r#"{"a":1,"b":{"c":{"d":1}},"e":2,"f":{"g":1,"h":2,"i":3}}"#]);
        // `b.c.d` is too deep; the rescue column is the first of two fields at the top, and `f`'s third would be one too many.
        assert_eq!(shape(&schema), "a:int64");
        assert_eq!(rescued(&rows), [Some(r#"{"/b":{"c":{"d":1}},"/e":2,"/f":{"g":1,"h":2,"i":3}}"#.into())]);
        let (schema, _) = run_with(None, &[], Limits { max_columns: 3, ..LIMITS }, &[r#"{"a":1,"x":{"y":1,"z":2},"w":3}"#]);
        assert_eq!(shape(&schema), "a:int64 x{y:int64}");
    }

    #[test]
    fn evidence_of_two_parts_is_the_evidence_of_the_whole() {
        let records = [
            r#"{"a":1,"n":{"x":1}}"#,
            r#"{"b":"t","a":0.5}"#,
            r#"{"n":{"x":"s","y":[1]},"c":[{"k":1}]}"#,
            r#"{"n":{"y":["t","u"]},"a":"s"}"#,
        ];
        let given = Given { declared: &[], rescue_column: "_rescued_data", transfer_columns: false, day: day() };
        let base = base_schema(None, &given).unwrap();
        let observe = |records: &[&str]| {
            let mut evidence = Evidence::new(&base, LIMITS);
            let mut tape = Tape::default();
            for record in records {
                tape.read(record.as_bytes(), 0, 64).unwrap();
                evidence.observe(&mut tape, record.as_bytes());
            }
            evidence
        };
        let whole = decide(&base, &observe(&records), None, "_rescued_data", day());
        for cut in 0..=records.len() {
            let mut first = observe(&records[..cut]);
            first.absorb(&observe(&records[cut..]));
            let kept = serde_json::to_string(&first.observed()).unwrap();
            let mut restored = Evidence::new(&base, LIMITS);
            restored.restore(&serde_json::from_str::<Vec<_>>(&kept).unwrap());
            assert_eq!(decide(&base, &first, None, "_rescued_data", day()), whole);
            assert_eq!(decide(&base, &restored, None, "_rescued_data", day()), whole);
        }
    }
}
