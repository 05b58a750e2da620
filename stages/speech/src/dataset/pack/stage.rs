//! The stage `dataset.pack`: each shard is a remembered part, so that only shards with changed
//! clips are written, and only their tokens read.

use std::collections::BTreeMap;

use cache::Digest;
use stage_core::key::{HashSink, ItemReads, Sink};
use stage_core::{
    Context, Fields, GatherInput, GatherJob, GatherOutput, Item, Job, NewValue, Output, PortOutput,
    Setup, StageError,
};
use stage_formats::npy::{self, Width};

use super::{PackClip, PackError, arrays, protos, shard_of};
use crate::plain::{JSON, unknown_choice};

const READS: [&str; 3] = ["speaker", "text", "tokens"];

#[derive(Clone, Copy)]
enum PackFormat {
    Protos,
    Arrays(Width),
}

struct Pack {
    format: PackFormat,
    shards: u32,
}

pub(in crate::dataset) fn open(setup: Setup, _: &mut dyn Context) -> Result<Job, StageError> {
    let parameters = &setup.parameters;
    let width = match parameters.text("integers")? {
        "i64" => Width::I64,
        "i32" => Width::I32,
        other => return Err(unknown_choice("integers", other)),
    };
    let format = match parameters.text("format")? {
        "protos" => PackFormat::Protos,
        "npy" => PackFormat::Arrays(width),
        other => return Err(unknown_choice("format", other)),
    };
    let shards = u32::try_from(parameters.integer("shards")?).unwrap_or(1);
    Ok(Job::Gather(Box::new(Pack { format, shards })))
}

impl GatherJob for Pack {
    fn run(
        &mut self,
        input: GatherInput,
        context: &mut dyn Context,
    ) -> Result<GatherOutput, StageError> {
        let mut shards: BTreeMap<u32, Vec<&Item>> = BTreeMap::new();
        for item in input.items("input")? {
            shards.entry(shard_of(&item.id, self.shards)).or_default().push(item);
        }
        let total = shards.len() as u64;
        let (mut files, mut written) = (Vec::new(), 0);
        for (done, (shard, items)) in shards.into_iter().enumerate() {
            if context.stopping() {
                return Err(StageError::Stopped);
            }
            context.progress(done as u64, total);
            let key = self.key(shard, &items);
            let fields = match context.recall(&key)? {
                Some(fields) => fields,
                None => {
                    written += 1;
                    self.write(shard, &key, &items, context)?
                }
            };
            let kept = fields.iter();
            files.extend(
                kept.map(|(name, value)| (name.to_string(), NewValue::Kept(value.clone()))),
            );
        }
        let output = GatherOutput::default().with("output", PortOutput::Artifact(files));
        let notes = vec![("shards written".to_owned(), written), ("shards".to_owned(), total)];
        Ok(GatherOutput { notes, ..output })
    }
}

impl Pack {
    /// Everything that determines the bytes of a shard.
    fn key(&self, shard: u32, items: &[&Item]) -> Digest {
        let mut sink = HashSink::default();
        let format = match self.format {
            PackFormat::Protos => "protos",
            PackFormat::Arrays(Width::I64) => "npy i64",
            PackFormat::Arrays(Width::I32) => "npy i32",
            PackFormat::Arrays(Width::U16) => "npy u16",
        };
        sink.text("format", format);
        sink.integer("shard", i64::from(shard));
        sink.group("items", items.len());
        let reads = ItemReads::new(READS, true);
        items.iter().for_each(|item| reads.see(item).write(&mut sink));
        sink.finish()
    }

    fn write(
        &self,
        shard: u32,
        key: &Digest,
        items: &[&Item],
        context: &mut dyn Context,
    ) -> Result<Fields, StageError> {
        let entries: Result<Vec<PackClip>, StageError> =
            items.iter().map(|item| entry(item, context)).collect();
        let failed = |error: PackError| StageError::failed(error.to_string());
        let name = format!("{shard:08}");
        let output = match self.format {
            PackFormat::Protos => {
                let bytes = protos::write(&entries?).map_err(failed)?;
                Output::default()
                    .with(format!("{name}.protos"), NewValue::bytes("shard/protos", bytes))
            }
            PackFormat::Arrays(width) => {
                let files = arrays::write(&entries?, width).map_err(failed)?;
                Output::default()
                    .with(format!("{name}.npy"), NewValue::bytes("shard/npy", files.tokens))
                    .with(format!("{name}.json"), NewValue::bytes(JSON, files.index))
            }
        };
        context.remember(key, output)
    }
}

fn entry(item: &Item, context: &mut dyn Context) -> Result<PackClip, StageError> {
    let missing = |field: &str| {
        StageError::failed(format!("the item `{}` has no field `{field}` to pack", item.id))
    };
    let blob = item.fields.blob("tokens").ok_or_else(|| missing("tokens"))?;
    let codes = npy::read(&context.read(blob)?).map_err(|error| {
        StageError::failed(format!("the tokens of `{}` cannot be read: {error}", item.id))
    })?;
    Ok(PackClip {
        id: item.id.to_string(),
        speaker: item.fields.text("speaker").unwrap_or_default().to_owned(),
        text: item.fields.text("text").ok_or_else(|| missing("text"))?.to_owned(),
        codes,
    })
}
