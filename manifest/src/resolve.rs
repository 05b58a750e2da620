//! Resolves a manifest: finds every reference and types every value.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use camino::{Utf8Path, Utf8PathBuf};
use stage_core::cost::Cost;
use stage_core::course::{self, EPOCHS, Timetable};
use stage_core::{Catalogue, ParameterType, ParameterValue, Parameters, Unit};

use super::artifacts::{Alternatives, ArrivingArtifact, written};
use super::asked;
use super::draft::{self, Draft};
use super::executor::{check_names, executors, place};
use super::export::Exporter;
use super::fields::{self, InputFields, Reader};
use super::instance::{self, Instance, Instances};
use super::order::order;
use super::problem::{Collector, Problem, Span};
use super::reference::{Names, Target};
use super::remote::remote;
use super::session::session;
use super::target::Targets;
use super::trials;
use super::value::{Checks, MISSING_FILE, plain};
use super::written::{Manifest, WrittenAsset, is_name};
use crate::pipeline::{
    Asset, HubModel, ITEMS, Input, KnownFields, ManifestText, Pipeline, Reference, SCHEME, StageId,
    StageSpec,
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
    let remote = remote(manifest.remote.as_ref(), &checks, problems);
    let executors = executors(&manifest, &checks, problems);
    let executor_spans = check_names(&manifest, &executors, problems);
    let spans = |asset: &WrittenAsset| AssetSpans {
        name: asset.name.span,
        path: asset.path.as_ref().map(|path| path.span),
    };
    let asset_spans: BTreeMap<String, AssetSpans> =
        manifest.assets.iter().map(|asset| (asset.name.value.clone(), spans(asset))).collect();
    let assets = assets(manifest.assets, &checks, problems);
    let mut stages = BTreeMap::new();
    let mut drafts: Vec<Option<Draft>> = Vec::new();
    for stage in manifest.stages {
        stages.insert(stage.name.value.clone(), drafts.len());
        drafts.push(draft::read(stage, catalogue, &checks, problems));
    }
    let sweeps = trials::apply(manifest.sweeps, &mut drafts, &stages, &checks, problems);
    let asset_names: BTreeSet<String> = asset_spans.keys().cloned().collect();
    find_references(&mut drafts, &stages, &asset_names, problems);
    warn_unused(&drafts, trials::scored(&sweeps), &asset_spans, problems);
    let order = order(&mut drafts, problems);
    let alternatives = Alternatives { drafts: &drafts, catalogue };
    order.removed.iter().for_each(|removed| alternatives.check_removed(removed, problems));
    let instances = instance::expand(&drafts, &order.stages, problems);
    let base = checks.base.to_owned();
    let mut read = checks.paths();
    if let Some(name) = file.file_name() {
        read.push((Utf8PathBuf::from(name), Span::default()));
    }
    let targets = Targets::new(&base, read);
    let mut builder = Builder::new(&drafts, &instances, &assets, catalogue, targets);
    builder.build(problems);
    let mut stages = builder.stages;
    let sweeps = trials::finish(sweeps, &drafts, &instances, &mut stages, problems);
    stages.iter_mut().for_each(|stage| place(stage, &executors, &executor_spans, problems));
    asked::set_limits(&mut stages);
    Some(Pipeline {
        name: name?,
        base,
        file: file.to_owned(),
        stages,
        assets,
        session,
        remote,
        executors,
        sweeps,
        written: ManifestText::default(),
        absent: BTreeSet::new(),
    })
}

fn name(manifest: &Manifest, problems: &mut Collector) -> Option<String> {
    let node = manifest.name.as_ref()?;
    let name = node.text().filter(|name| is_name(name));
    if name.is_none() {
        problems.add(
            Problem::new("bad_name", node.span, "`name` is not a valid name of a pipeline")
                .help("use letters, digits, `-` and `_`"),
        );
    }
    name.map(str::to_owned)
}

fn seed(manifest: &Manifest, checks: &Checks, problems: &mut Collector) -> i64 {
    let Some(node) = &manifest.seed else { return 0 };
    let parameter = plain("seed", ParameterType::Integer { min: 0, max: i64::MAX }, Unit::None);
    match checks.value(&parameter, node, problems) {
        Some(ParameterValue::Integer(seed)) => seed,
        _ => 0,
    }
}

fn assets(
    written: Vec<WrittenAsset>,
    checks: &Checks,
    problems: &mut Collector,
) -> BTreeMap<String, Asset> {
    let path_parameter = plain("path", ParameterType::SourcePath, Unit::None);
    let hub_parameter = plain("path", ParameterType::Text, Unit::None);
    let license_parameter = plain("license", ParameterType::Text, Unit::None);
    let mut assets = BTreeMap::new();
    for asset in written {
        let license =
            asset.license.and_then(|node| checks.value(&license_parameter, &node, problems));
        let license = match license {
            Some(ParameterValue::Text(text)) => Some(text),
            _ => None,
        };
        let Some(node) = asset.path else { continue };
        let is_hub = node.text().is_some_and(|text| text.starts_with(SCHEME));
        let parameter = if is_hub { &hub_parameter } else { &path_parameter };
        let Some(ParameterValue::Text(path)) = checks.value(parameter, &node, problems) else {
            continue;
        };
        let hub = HubModel::parse(&path);
        if is_hub && hub.is_none() {
            let message = format!("`{path}` is not the address of a model");
            let help = "write `hf://OWNER/NAME` or `hf://OWNER/NAME@REVISION`";
            problems.add(Problem::new("bad_name", node.span, message).help(help));
        }
        let path = Utf8PathBuf::from(path);
        assets.insert(asset.name.value, Asset { path, license, hub, commit: None });
    }
    assets
}

/// Resolves the references on ports to stages, ports and assets.
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

/// The positions of an asset.
struct AssetSpans {
    name: Span,
    path: Option<Span>,
}

/// Reports what nothing uses. An asset of this kind may be missing.
fn warn_unused(
    drafts: &[Option<Draft>],
    scored: BTreeSet<usize>,
    assets: &BTreeMap<String, AssetSpans>,
    problems: &mut Collector,
) {
    let mut read = scored;
    let mut used = BTreeSet::new();
    for (target, _) in drafts.iter().flatten().flat_map(|draft| draft.inputs.values().flatten()) {
        match target {
            Target::Stage { stage, .. } => drop(read.insert(*stage)),
            Target::Asset(name) => drop(used.insert(name.as_str())),
        }
    }
    for (name, spans) in assets.iter().filter(|(name, _)| !used.contains(name.as_str())) {
        let message = format!("no stage uses the asset `{name}`");
        problems.add(Problem::warning("unused_asset", spans.name, message));
        if let Some(path) = spans.path {
            problems.soften(MISSING_FILE, path);
        }
    }
    for (at, draft) in drafts.iter().enumerate() {
        let Some(draft) = draft else { continue };
        let idle = draft.exports.is_empty() && !draft.kind.outputs.is_empty();
        if idle && !read.contains(&at) {
            let message =
                format!("nothing reads stage `{}`, and it exports nothing", draft.name.value);
            let problem = Problem::warning("unused_stage", draft.name.span, message);
            problems.add(
                problem.help("its results stay in the cache; `export = \"out/…\"` writes files"),
            );
        }
    }
}

/// Makes the stages of the pipeline, one after the other.
struct Builder<'a> {
    drafts: &'a [Option<Draft>],
    instances: &'a Instances,
    assets: &'a BTreeMap<String, Asset>,
    catalogue: &'a Catalogue,
    stages: Vec<StageSpec>,
    targets: Targets,
    /// The written stages that add a field, for messages.
    writers: HashMap<&'static str, Vec<String>>,
}

impl<'a> Builder<'a> {
    fn new(
        drafts: &'a [Option<Draft>],
        instances: &'a Instances,
        assets: &'a BTreeMap<String, Asset>,
        catalogue: &'a Catalogue,
        targets: Targets,
    ) -> Builder<'a> {
        let mut writers: HashMap<&'static str, Vec<String>> = HashMap::new();
        for draft in drafts.iter().flatten() {
            for (name, _) in draft.kind.outputs.iter().flat_map(|output| output.writes) {
                writers.entry(name).or_default().push(draft.name.value.clone());
            }
        }
        Builder { drafts, instances, assets, catalogue, stages: Vec::new(), targets, writers }
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
        let references = self.references(instance, draft, problems);
        self.check_artifacts(draft, &references, problems);
        let arriving = self.arriving(&references);
        draft.check(&instance.parameters, problems);
        self.check_fields(instance, draft, &arriving, problems);
        check_timetable(instance, draft, problems);
        let broken = |port: &str| draft.is_broken(port, references.get(port).map_or(0, Vec::len));
        let fields: BTreeMap<&'static str, KnownFields> = draft
            .kind
            .outputs
            .iter()
            .map(|output| {
                let known =
                    fields::on_output(draft.kind, output, &instance.parameters, &arriving, &broken);
                (output.name, known)
            })
            .collect();
        drop(arriving);
        let inputs = inputs(draft, references, &instance.parameters);
        let licenses = self.licenses(&inputs);
        let name = if instance.suffix.is_empty() {
            draft.name.value.clone()
        } else {
            format!("{}[{}]", draft.name.value, instance.suffix)
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
            place: None,
            gate: Vec::new(),
        };
        self.add_exports(&mut stage, instance, draft, problems);
        stage
    }

    /// The targets of every reference, with its position.
    fn references(
        &self,
        instance: &Instance,
        draft: &Draft,
        problems: &mut Collector,
    ) -> BTreeMap<&'static str, Vec<(Reference, Span)>> {
        let mut ports = BTreeMap::new();
        for (name, targets) in &draft.inputs {
            let Some(port) = draft.kind.input(name) else { continue };
            let mut references = Vec::new();
            for (target, span) in targets {
                let (stage, output, named) = match target {
                    Target::Asset(name) => {
                        references.push((Reference::Asset(name.clone()), *span));
                        continue;
                    }
                    Target::Stage { stage, port, instance } => (*stage, port, instance.as_deref()),
                };
                let meant = self.instances.of_reference(instance, stage, named, port.many);
                if let (true, Some(named)) = (meant.is_empty(), named) {
                    self.report_instance(stage, named, *span, problems);
                }
                let reference = |at| Reference::Stage { stage: StageId(at), port: output };
                references.extend(meant.into_iter().map(|at| (reference(at), *span)));
            }
            ports.insert(port.name, references);
        }
        ports
    }

    fn report_instance(&self, stage: usize, named: &str, span: Span, problems: &mut Collector) {
        let known: Vec<&str> = self.instances.suffixes(stage).collect();
        let name = self.drafts[stage].as_ref().map_or("", |draft| draft.name.value.as_str());
        problems.add(instance::unknown_instance(named, name, &known, span));
    }

    /// The inputs of each port that come from stages, with the positions of the references.
    fn arriving(
        &self,
        references: &BTreeMap<&'static str, Vec<(Reference, Span)>>,
    ) -> BTreeMap<&'static str, Vec<InputFields<'_>>> {
        let arrived = |(reference, span): &(Reference, Span)| {
            let Reference::Stage { stage, port } = reference else { return None };
            let stage = self.stages.get(stage.0)?;
            let fields = stage.fields.get(port)?;
            Some(InputFields { fields, span: *span, stage: base_name(&stage.name) })
        };
        let port = |(port, references): (&&'static str, &Vec<(Reference, Span)>)| {
            (*port, references.iter().filter_map(arrived).collect())
        };
        references.iter().map(port).collect()
    }

    fn check_artifacts(
        &self,
        draft: &Draft,
        references: &BTreeMap<&'static str, Vec<(Reference, Span)>>,
        problems: &mut Collector,
    ) {
        let alternatives = Alternatives { drafts: self.drafts, catalogue: self.catalogue };
        for (name, references) in references {
            let Some(port) = draft.kind.input(name) else { continue };
            for (reference, span) in references {
                // The kind of an asset depends on its content.
                let Reference::Stage { stage, port: output } = reference else { continue };
                let Some(stage) = self.stages.get(stage.0) else { continue };
                let Some(output) = stage.kind.output(output) else { continue };
                let name = written(base_name(&stage.name), stage.kind, output);
                let given = output.given(&stage.parameters);
                let arriving = ArrivingArtifact { given, name, span: *span };
                alternatives.check(&draft.name.value, port, &arriving, problems);
            }
        }
    }

    fn check_fields(
        &self,
        instance: &Instance,
        draft: &Draft,
        arriving: &BTreeMap<&'static str, Vec<InputFields>>,
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
        for port in draft.kind.inputs.iter().filter(|port| !draft.has_port(port.name)) {
            for data_set in arriving.get(ITEMS).into_iter().flatten() {
                reader.check_brought(port, draft.name.span, data_set, problems);
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

/// The parts of a training with this number of steps that can never take effect.
fn check_timetable(instance: &Instance, draft: &Draft, problems: &mut Collector) {
    let parameters = &instance.parameters;
    let has_epochs = draft.kind.parameters.iter().any(|parameter| parameter.name == EPOCHS);
    // A length of the wrong type is told already.
    let is_told = ["steps", EPOCHS]
        .iter()
        .any(|name| draft.places.contains_key(*name) && !parameters.is_set(name));
    if let (true, Some((message, help))) =
        (has_epochs && !is_told, course::length_mistake(parameters))
    {
        let place = draft.places.get(EPOCHS).copied().unwrap_or(draft.name.span);
        problems.add(Problem::new("training_length", place, message).help(help));
    }
    let (Cost::Training(_), Ok(steps)) = (draft.kind.cost, parameters.integer("steps")) else {
        return;
    };
    let Ok(timetable) = Timetable::of(parameters, steps.max(1) as u64) else { return };
    let is_given = draft.inputs.contains_key("validation");
    let fraction = parameters.number("validation_fraction");
    let has_held_out = is_given || fraction.is_ok_and(|fraction| fraction > 0.0);
    for idle in timetable.idle(has_held_out) {
        let place = draft.places.get(idle.parameter.as_str()).or(draft.places.get("steps"));
        let span = place.copied().unwrap_or(draft.name.span);
        problems.add(Problem::new("idle_schedule", span, idle.message).help(idle.help));
    }
}

fn inputs(
    draft: &Draft,
    references: BTreeMap<&'static str, Vec<(Reference, Span)>>,
    parameters: &Parameters,
) -> BTreeMap<&'static str, Input> {
    let mut inputs = BTreeMap::new();
    for (name, references) in references {
        let Some(port) = draft.kind.input(name) else { continue };
        let references = references.into_iter().map(|(reference, _)| reference).collect();
        inputs.insert(name, Input { references, reads: fields::reads(port, parameters) });
    }
    inputs
}

/// The written name of a stage.
fn base_name(name: &str) -> &str {
    name.split('[').next().unwrap_or(name)
}
