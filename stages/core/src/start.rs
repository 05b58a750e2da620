//! Start here: the few items that a first stage needs, and a complete example.
//!
//! A stage has a description and an implementation:
//!
//! | item | purpose |
//! |---|---|
//! | [`Kind`] | The description: name, ports, parameters. The checks of a manifest, the manual and the keys follow from it, without running any code. |
//! | [`Stage`] | Connects the kind with its implementation. [`Stage::open`] reads the parameters and returns a job. |
//! | [`EachItem`] | The work on one item. The engine calls it on several threads, for the items that have no result yet. |
//! | [`Item`] | The input: an id, and the [fields](crate::Fields) that the kind reads. |
//! | [`NewValue`] | A field of the [`Output`]: a text, a number, or bytes with their media type. |
//! | [`Reject`] | A verdict on one item: it is quarantined with this reason. The run goes on without it. |
//! | [`StageError`] | A failure that is not the fault of one item. It is never recorded. |
//! | [`Detached`] | A [`Context`](crate::Context) for tests, without a cache. |
//!
//! Two rules keep results right:
//!
//! - **An output depends only on the fields that the kind reads, on its parameters and on its
//!   version.** These are the key. Equal keys mean that a stored result is used, so an output must
//!   not depend on times, on other files or on random numbers without a seed.
//! - **[`Kind::version`] is raised when the same input gives another output.** Then the results of
//!   this stage are made again; downstream, only work with changed inputs is.
//!
//! # An example
//!
//! This stage counts the words of transcripts, and quarantines transcripts with too many. It writes
//! a field, so the other fields of the items are passed on.
//!
//! ```
//! use stage_core::{
//!     Context, Default, Detached, EachItem, FieldSet, FieldType, Fields, InputPort, Item, Job,
//!     Kind, NewValue, Output, OutputPort, Parameter, ParameterType, ParameterValue, Parameters,
//!     Reject, Setup, Stage, StageError, Value,
//! };
//!
//! static KIND: Kind = Kind {
//!     name: "my.words",
//!     summary: "Counts the words of transcripts.",
//!     // A change of another field, such as the sound, causes no work here.
//!     inputs: &[InputPort {
//!         reads: FieldSet::These(&[("text", FieldType::Text)]),
//!         doc: "Items with transcripts.",
//!         ..InputPort::DATASET
//!     }],
//!     outputs: &[OutputPort {
//!         writes: &[("words", FieldType::Number)],
//!         doc: "The items with their number of words.",
//!         ..OutputPort::DATASET
//!     }],
//!     parameters: &[Parameter {
//!         name: "max_words",
//!         parameter_type: ParameterType::Integer { min: 1, max: 10_000 },
//!         default: Default::Integer(60),
//!         doc: "Items with more words are quarantined.",
//!         ..Parameter::BASE
//!     }],
//!     ..Kind::BASE
//! };
//!
//! pub struct WordsStage;
//!
//! impl Stage for WordsStage {
//!     fn kind(&self) -> &'static Kind {
//!         &KIND
//!     }
//!
//!     // Called once before the first item: the place to load a model.
//!     fn open(&self, setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
//!         let max_words = setup.parameters.integer("max_words")?;
//!         Ok(Job::Item(Box::new(WordCount { max_words: max_words as usize })))
//!     }
//! }
//!
//! struct WordCount {
//!     max_words: usize,
//! }
//!
//! impl EachItem for WordCount {
//!     fn one(
//!         &self,
//!         item: &Item,
//!         _: &mut dyn Context,
//!     ) -> Result<Result<Output, Reject>, StageError> {
//!         let Some(text) = item.fields.text("text") else {
//!             return Ok(Err(Reject::new("no-text", "the item has no text in the field `text`")));
//!         };
//!         let (words, most) = (text.split_whitespace().count(), self.max_words);
//!         if words > most {
//!             let reason =
//!                 format!("{words} words are more than {most}: split it, or raise `max_words`");
//!             return Ok(Err(Reject::new("too-long", reason)));
//!         }
//!         Ok(Ok(Output::default().with("words", NewValue::Number(words as f64))))
//!     }
//! }
//!
//! // The test: one item and these parameters, without a cache and without a manifest.
//! fn result(text: &str) -> Result<Output, Reject> {
//!     let max_words = ("max_words".to_owned(), ParameterValue::Integer(3));
//!     let setup = Setup { parameters: Parameters([max_words].into()), ..Setup::default() };
//!     let mut context = Detached::default();
//!     let Ok(Job::Item(job)) = WordsStage.open(setup, &mut context) else { panic!("no job") };
//!     let item = Item::new("clip_1", Fields::from_iter([("text", Value::text(text))]));
//!     job.process(&[item], &mut context).unwrap().remove(0)
//! }
//!
//! let counted = Output::default().with("words", NewValue::Number(2.0));
//! assert_eq!(result("hyvää huomenta"), Ok(counted));
//! assert_eq!(result("one two three four").unwrap_err().code, "too-long");
//! ```
//!
//! A field with sound is a [`Blob`](crate::Blob): [`Context::read`](crate::Context::read) returns
//! its bytes, and [`Detached::holding`] has the bytes for a test.
//!
//! # The next steps
//!
//! - `throstle new-stage NAME` writes a crate with a stage for sound, its tests, and a program that
//!   has this stage beside all others.
//! - [`ItemJob`](crate::ItemJob) in place of [`EachItem`] gets several items at once, for a model
//!   that is faster this way: see [`Batching`](crate::Batching).
//! - [`Output::of_children`] makes several items of one.
//! - [`GatherJob`](crate::GatherJob) gets a whole data set, and [`SourceJob`](crate::SourceJob)
//!   reads files.
//!
//! [`EachItem`]: crate::EachItem
//! [`Item`]: crate::Item
//! [`Kind`]: crate::Kind
//! [`Kind::version`]: crate::Kind::version
//! [`NewValue`]: crate::NewValue
//! [`Output`]: crate::Output
//! [`Output::of_children`]: crate::Output::of_children
//! [`Reject`]: crate::Reject
//! [`Stage`]: crate::Stage
//! [`Stage::open`]: crate::Stage::open
//! [`StageError`]: crate::StageError
//! [`Detached`]: crate::Detached
//! [`Detached::holding`]: crate::Detached::holding
