//! From what was written to what is meant: every reference found, every value typed.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use camino::{Utf8Path, Utf8PathBuf};
use stage_core::{Catalogue, ParameterType, ParameterValue, PortType, Unit};

use super::draft::{self, Draft};
use super::export::{Exporter, Targets};
use super::fields::{self, Arriving, Reader};
use super::instance::{self, Instance, Instances};
use super::order::order;
use super::problem::{Collector, Problem, Span};
use super::reference::{Names, Target};
use super::value::{Checks, plain};
use super::written::{Manifest, WrittenAsset, is_name};
use crate::pipeline::{
    Asset, Input, KnownFields, Pipeline, Reference, Session, StageId, StageSpec,
};

pub fn resolve(
    manifest: Manifest,
    file: &Utf8Path,
    catalogue: &Catalogue,
    mut checks: Checks,
    problems: &mut Collector,
) -> Option<Pipeline> {
    checks.seed = seed(&manifest, &checks, problems);
    let name = name(&manifest, problems);
    let session = session(&manifest, &checks, problems);
    let asset_spans: BTreeMap<String, Span> =
        manifest.assets.iter().map(|asset| (asset.name.value.clone(), asset.name.span)).collect();
    let assets = assets(manifest.assets, &checks, problems);
    let mut stages = BTreeMap::new();
    let mut drafts: Vec<Option<Draft>> = Vec::new();
    for stage in manifest.stages {
        stages.insert(stage.name.value.clone(), drafts.len());
        drafts.push(draft::read(stage, catalogue, &checks, problems));
    }
    let asset_names: BTreeSet<String> = asset_spans.keys().cloned().collect();
    find_references(&mut drafts, &stages, &asset_names, problems);
    warn_unused(&drafts, &asset_spans, problems);
    let order = order(&drafts, problems);
    let instances = instance::expand(&drafts, &order, problems);
    let base = checks.base.to_owned();
    let mut read = checks.paths();
    if let Some(name) = file.file_name() {
        read.push((Utf8PathBuf::from(name), Span::default()));
    }
    let targets = Targets::new(&base, read);
    let mut builder = Builder::new(&drafts, &instances, &assets, targets);
    builder.build(problems);
    let stages = builder.stages;
    Some(Pipeline { name: name?, base, file: file.to_owned(), stages, assets, session })
}

fn name(manifest: &Manifest, problems: &mut Collector) -> Option<String> {
    let node = manifest.name.as_ref()?;
    let name = node.text().filter(|name| is_name(name));
    if name.is_none() {
        problems.add(
            Problem::new("bad_name", node.span, "`name` cannot be the name of a pipeline")
                .help("a text of letters, digits, `-` and `_`"),
        );
    }
    name.map(str::to_owned)
}

fn seed(manifest: &Manifest, checks: &Checks, problems: &mut Collector) -> i64 {
    let Some(node) = &manifest.seed else { return 0 };
    let parameter =
        plain("seed", ParameterType::Integer { min: i64::MIN, max: i64::MAX }, Unit::None);
    match checks.value(&parameter, node, problems) {
        Some(ParameterValue::Integer(seed)) => seed,
        _ => 0,
    }
}

fn session(manifest: &Manifest, checks: &Checks, problems: &mut Collector) -> Session {
    let mut session = Session::default();
    if let Some(node) = &manifest.stop_after {
        let parameter = plain("stop_after", ParameterType::Duration, Unit::None);
        if let Some(ParameterValue::Seconds(seconds)) = checks.value(&parameter, node, problems) {
            session.stop_after_seconds = Some(seconds);
        }
    }
    if let Some(node) = &manifest.price_per_hour {
        let prices = ParameterType::Number { min: 0.0, max: 1e9 };
        let parameter = plain("price_per_hour", prices, Unit::None);
        if let Some(ParameterValue::Number(price)) = checks.value(&parameter, node, problems) {
            session.price_per_hour = Some(price);
        }
    }
    session
}

fn assets(
    written: Vec<WrittenAsset>,
    checks: &Checks,
    problems: &mut Collector,
) -> BTreeMap<String, Asset> {
    let path_parameter = plain("path", ParameterType::SourcePath, Unit::None);
    let license_parameter = plain("license", ParameterType::Text, Unit::None);
    let mut assets = BTreeMap::new();
    for asset in written {
        let license =
            asset.license.and_then(|node| checks.value(&license_parameter, &node, problems));
        let license = match license {
            Some(ParameterValue::Text(text)) => Some(text),
            _ => None,
        };
        let path = asset.path.and_then(|node| checks.value(&path_parameter, &node, problems));
        if let Some(ParameterValue::Text(path)) = path {
            assets.insert(asset.name.value, Asset { path: Utf8PathBuf::from(path), license });
        }
    }
    assets
}

/// Turns what stands on the ports into stages, ports and assets.
fn find_references(
    drafts: &mut [Option<Draft>],
    stages: &BTreeMap<String, usize>,
    assets: &BTreeSet<String>,
    problems: &mut Collector,
) {
    let mut found = Vec::new();
    let names = Names { stages, drafts, assets };
    for (at, draft) in drafts.iter().enumerate() {
        let Some(draft) = draft else { continue };
        for (name, written) in &draft.ports {
            let Some(port) = draft.kind.input(name) else { continue };
            for reference in written {
                if let Some(target) = names.find(port, reference, problems) {
                    found.push((at, *name, target, reference.span));
                }
            }
        }
    }
    for (at, port, target, span) in found {
        if let Some(draft) = &mut drafts[at] {
            draft.inputs.entry(port).or_default().push((target, span));
        }
    }
}

fn warn_unused(
    drafts: &[Option<Draft>],
    assets: &BTreeMap<String, Span>,
    problems: &mut Collector,
) {
    let mut read = BTreeSet::new();
    let mut used = BTreeSet::new();
    for (target, _) in drafts.iter().flatten().flat_map(|draft| draft.inputs.values().flatten()) {
        match target {
            Target::Stage { stage, .. } => drop(read.insert(*stage)),
            Target::Asset(name) => drop(used.insert(name.as_str())),
        }
    }
    for (name, span) in assets.iter().filter(|(name, _)| !used.contains(name.as_str())) {
        let message = format!("no stage uses the asset `{name}`");
        problems.add(Problem::warning("unused_asset", *span, message));
    }
    for (at, draft) in drafts.iter().enumerate() {
        let Some(draft) = draft else { continue };
        let idle = draft.exports.is_empty() && !draft.kind.outputs.is_empty();
        if idle && !read.contains(&at) {
            let message =
                format!("nothing reads stage `{}`, and it exports nothing", draft.name.value);
            let problem = Problem::warning("unused_stage", draft.name.span, message);
            problems.add(
                problem.help("its results stay in the cache; `export = \"out/…\"` makes files"),
            );
        }
    }
}

/// Makes the stages of the pipeline, one after the other.
struct Builder<'a> {
    drafts: &'a [Option<Draft>],
    instances: &'a Instances,
    assets: &'a BTreeMap<String, Asset>,
    stages: Vec<StageSpec>,
    targets: Targets,
    /// For messages: which written stages add a field.
    writers: HashMap<&'static str, Vec<String>>,
}

impl<'a> Builder<'a> {
    fn new(
        drafts: &'a [Option<Draft>],
        instances: &'a Instances,
        assets: &'a BTreeMap<String, Asset>,
        targets: Targets,
    ) -> Builder<'a> {
        let mut writers: HashMap<&'static str, Vec<String>> = HashMap::new();
        for draft in drafts.iter().flatten() {
            for (name, _) in draft.kind.outputs.iter().flat_map(|output| output.writes) {
                writers.entry(name).or_default().push(draft.name.value.clone());
            }
        }
        Builder { drafts, instances, assets, stages: Vec::new(), targets, writers }
    }

    fn build(&mut self, problems: &mut Collector) {
        for instance in &self.instances.all {
            if let Some(draft) = &self.drafts[instance.stage] {
                let stage = self.stage(instance, draft, problems);
                self.stages.push(stage);
            }
        }
    }

    fn stage(&mut self, instance: &Instance, draft: &Draft, problems: &mut Collector) -> StageSpec {
        let inputs = self.inputs(instance, draft, problems);
        let arriving = self.arriving(draft, &inputs);
        self.check_fields(instance, draft, &arriving, problems);
        let broken = |port: &str| draft.is_broken(port, &inputs);
        let fields =
            draft.kind.outputs.iter().filter(|output| output.port_type == PortType::Dataset);
        let fields: BTreeMap<&'static str, KnownFields> = fields
            .map(|output| {
                let known =
                    fields::on_output(draft.kind, output, &instance.parameters, &arriving, &broken);
                (output.name, known)
            })
            .collect();
        let licenses = self.licenses(&inputs);
        drop(arriving);
        let name = match instance.suffix.is_empty() {
            true => draft.name.value.clone(),
            false => format!("{}[{}]", draft.name.value, instance.suffix),
        };
        let mut stage = StageSpec {
            id: StageId(self.stages.len()),
            name,
            kind: draft.kind,
            work: Draft::work(draft.kind, &instance.parameters),
            parameters: instance.parameters.clone(),
            inputs,
            fields,
            exports: Vec::new(),
            policy: draft.policy.clone(),
            licenses,
        };
        self.add_exports(&mut stage, instance, draft, problems);
        stage
    }

    fn inputs(
        &self,
        instance: &Instance,
        draft: &Draft,
        problems: &mut Collector,
    ) -> BTreeMap<&'static str, Input> {
        let mut inputs = BTreeMap::new();
        for (name, targets) in &draft.inputs {
            let Some(port) = draft.kind.input(name) else { continue };
            let mut references = Vec::new();
            for (target, span) in targets {
                match target {
                    Target::Asset(name) => references.push(Reference::Asset(name.clone())),
                    Target::Stage { stage, port: output, instance: named } => {
                        let meant =
                            self.instances.meant(instance, *stage, named.as_deref(), port.many);
                        if let (true, Some(named)) = (meant.is_empty(), named) {
                            self.report_instance(*stage, named, *span, problems);
                        }
                        references.extend(
                            meant
                                .into_iter()
                                .map(|at| Reference::Stage { stage: StageId(at), port: output }),
                        );
                    }
                }
            }
            let reads = fields::reads(port, &instance.parameters);
            inputs.insert(port.name, Input { references, reads });
        }
        inputs
    }

    fn report_instance(&self, stage: usize, named: &str, span: Span, problems: &mut Collector) {
        let known: Vec<&str> = self.instances.suffixes(stage).collect();
        let name = self.drafts[stage].as_ref().map_or("", |draft| draft.name.value.as_str());
        problems.add(instance::unknown_instance(named, name, &known, span));
    }

    /// The data sets that arrive on each port, with the places of their references.
    fn arriving<'b>(
        &'b self,
        draft: &'b Draft,
        inputs: &BTreeMap<&'static str, Input>,
    ) -> BTreeMap<&'static str, Vec<Arriving<'b>>> {
        let mut arriving = BTreeMap::new();
        for (port, input) in inputs {
            let spans: Vec<Span> =
                draft.inputs.get(port).into_iter().flatten().map(|(_, span)| *span).collect();
            let data_sets = input.references.iter().enumerate().filter_map(|(at, reference)| {
                let Reference::Stage { stage, port } = reference else { return None };
                let stage = self.stages.get(stage.0)?;
                let span = spans.get(at).or(spans.last()).copied().unwrap_or_default();
                Some(Arriving {
                    fields: stage.fields.get(port)?,
                    span,
                    stage: base_name(&stage.name),
                })
            });
            arriving.insert(*port, data_sets.collect());
        }
        arriving
    }

    fn check_fields(
        &self,
        instance: &Instance,
        draft: &Draft,
        arriving: &BTreeMap<&'static str, Vec<Arriving>>,
        problems: &mut Collector,
    ) {
        let writers = |name: &str| self.writers.get(name).cloned().unwrap_or_default();
        let reader = Reader {
            stage: &draft.name.value,
            kind: draft.kind,
            parameters: &instance.parameters,
            places: &draft.places,
            writers: &writers,
        };
        for port in draft.kind.inputs {
            for data_set in arriving.get(port.name).into_iter().flatten() {
                reader.check(port, data_set, problems);
            }
        }
    }

    fn licenses(&self, inputs: &BTreeMap<&'static str, Input>) -> BTreeSet<String> {
        let mut licenses = BTreeSet::new();
        for reference in inputs.values().flat_map(|input| &input.references) {
            match reference {
                Reference::Asset(name) => {
                    licenses.extend(self.assets.get(name).and_then(|asset| asset.license.clone()));
                }
                Reference::Stage { stage, .. } => {
                    let above = self.stages.get(stage.0);
                    licenses
                        .extend(above.into_iter().flat_map(|stage| stage.licenses.iter().cloned()));
                }
            }
        }
        licenses
    }

    fn add_exports(
        &mut self,
        stage: &mut StageSpec,
        instance: &Instance,
        draft: &Draft,
        problems: &mut Collector,
    ) {
        for written in &draft.exports {
            let exporter = Exporter {
                stage: &draft.name.value,
                kind: draft.kind,
                parameters: &instance.parameters,
                suffix: &instance.suffix,
                fields: &stage.fields,
            };
            if let Some(export) = exporter.resolve(written, problems) {
                self.targets.add(&draft.name.value, &export, written, problems);
                stage.exports.push(export);
            }
        }
    }
}

/// The written name of a stage.
fn base_name(name: &str) -> &str {
    name.split('[').next().unwrap_or(name)
}
