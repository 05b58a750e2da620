//! Trainings that are drawn over each other: those that a matrix makes of one stage, and those of
//! one stage in several runs.

use std::collections::BTreeSet;

use cache::Digest;
use engine::store::ReadError;

use super::chart::{Curve, LINES};
use super::compared::{ComparedColumns, ComparedRow};
use super::run_data::RunData;
use super::runs::{PageRuns, parameters};
use super::training::{TrainingReport, TrainingResult, trainings};

/// Trainings under one name; more than one are drawn over each other.
#[derive(Debug, Default)]
pub struct Group {
    pub name: String,
    pub members: Vec<Member>,
    /// By the position in `members`.
    pub compared: ComparedColumns,
}

#[derive(Clone, Debug, Default)]
pub struct Member {
    /// Its difference from the others: `[rate=0.1]`, `run 12`, or both.
    pub label: String,
    /// The outcome that its curves belong to, as far as there is one.
    key: Option<Digest>,
    pub training: TrainingReport,
    row: ComparedRow,
}

/// The trainings of the shown run, with those of the runs that are drawn over it.
pub fn groups(seen: &RunData, chosen: &PageRuns) -> Result<Vec<Group>, ReadError> {
    let mut groups: Vec<Group> = Vec::new();
    let runs = chosen.all.iter().filter(|run| chosen.is_overlaid && run.run != seen.run.run);
    for run in runs {
        let earlier = RunData::look(seen.pipeline, seen.store, run.clone())?;
        add(&mut groups, &earlier, chosen)?;
    }
    add(&mut groups, seen, chosen)?;
    groups.iter_mut().for_each(Group::compare);
    // In the order of the pipeline, whichever run a stage was in.
    let place = |group: &Group| {
        let name = |name: &str| common(name) == group.name;
        seen.pipeline.stages.iter().position(|spec| name(&spec.name))
    };
    groups.sort_by_key(place);
    Ok(groups)
}

fn add(groups: &mut Vec<Group>, seen: &RunData, chosen: &PageRuns) -> Result<(), ReadError> {
    for training in trainings(seen)? {
        let key = seen.run.keys.get(&training.stage).copied();
        let (name, instance) = split(&training.stage);
        let at = match groups.iter().position(|group| group.name == name) {
            Some(at) => at,
            None => {
                groups.push(Group { name: name.to_owned(), ..Group::default() });
                groups.len() - 1
            }
        };
        let run = chosen.is_overlaid.then(|| seen.run.run.to_string());
        let members = &mut groups[at].members;
        let is_same = |member: &&mut Member| {
            key.is_some() && member.key == key && member.training.stage == training.stage
        };
        if let Some(member) = members.iter_mut().find(is_same) {
            member.label.extend(run.map(|run| format!(", {run}")));
            continue;
        }
        let run = run.map(|run| format!("run {run}"));
        let label: Vec<String> = instance.map(str::to_owned).into_iter().chain(run).collect();
        let row = row(seen, key.as_ref(), &training)?;
        members.push(Member { label: label.join(" "), key, training, row });
    }
    Ok(())
}

fn row(
    seen: &RunData,
    key: Option<&Digest>,
    training: &TrainingReport,
) -> Result<ComparedRow, ReadError> {
    let parameters = key.map(|key| parameters(seen.store, key)).transpose()?.unwrap_or_default();
    let figures = training.ended.as_ref().map(TrainingResult::figures).unwrap_or_default();
    Ok(ComparedRow { parameters, figures })
}

/// A name and the suffix that a matrix gave it.
fn split(name: &str) -> (&str, Option<&str>) {
    match name.find('[') {
        Some(at) => (&name[..at], Some(&name[at..])),
        None => (name, None),
    }
}

fn common(name: &str) -> &str {
    split(name).0
}

impl Member {
    /// The same under another label.
    pub fn labelled(&self, label: &str) -> Member {
        Member { label: label.to_owned(), ..self.clone() }
    }
}

impl Group {
    /// Finds the columns in which the members differ.
    pub fn compare(&mut self) {
        let rows: Vec<ComparedRow> = self.members.iter().map(|member| member.row.clone()).collect();
        self.compared = ComparedColumns::of(&rows);
    }

    /// A chart for each figure, with a line for each training that has it.
    pub fn charts(&self) -> Vec<(String, Vec<Curve>)> {
        let names: BTreeSet<&String> =
            self.members.iter().flat_map(|member| member.training.curves.keys()).collect();
        let mut names: Vec<&String> = names.into_iter().filter(|name| *name != "passes").collect();
        names.sort_by_key(|name| match name.as_str() {
            "held_out" => 0,
            "loss" => 1,
            "rate" => 2,
            name if !name.contains('/') => 3,
            _ => 4,
        });
        let line = |name: &String, member: &Member| {
            let points = member.training.curves.get(name)?.points.clone();
            Some(Curve { name: member.label.clone(), points })
        };
        let charts = names.into_iter().flat_map(|name| {
            let lines: Vec<Curve> = self.members.iter().filter_map(|m| line(name, m)).collect();
            let parts: Vec<Vec<Curve>> = lines.chunks(LINES).map(<[Curve]>::to_vec).collect();
            parts.into_iter().map(|lines| (title(name), lines))
        });
        charts.collect()
    }

    /// The member with the lowest loss on held-out clips.
    pub fn best(&self) -> Option<(&Member, u64, f64)> {
        let best = |member: &Member| member.training.ended.as_ref()?.best;
        let known = self.members.iter().filter_map(|m| best(m).map(|(step, loss)| (m, step, loss)));
        known.min_by(|one, other| one.2.total_cmp(&other.2))
    }
}

fn title(name: &str) -> String {
    match name {
        "held_out" => "Held-out loss".into(),
        "loss" => "Training loss".into(),
        "rate" => "Learning rate".into(),
        "gradient_norm" => "Norm of the gradients".into(),
        other => other.replace('_', " "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(label: &str, names: &[&str], best: f64) -> Member {
        let curve = |name: &&str| {
            let curve = Curve { name: name.to_string(), points: vec![(1.0, best)] };
            (name.to_string(), curve)
        };
        let ended = TrainingResult { best: Some((1, best)), ..TrainingResult::default() };
        let training = TrainingReport {
            curves: names.iter().map(curve).collect(),
            ended: Some(ended),
            ..TrainingReport::default()
        };
        Member { label: label.into(), training, ..Member::default() }
    }

    #[test]
    fn a_chart_has_a_line_for_each_training_that_has_the_figure() {
        let members = vec![
            member("[rate=0.1]", &["loss", "held_out", "loss/mel"], 2.0),
            member("[rate=0.2]", &["loss", "passes"], 1.5),
        ];
        let group = Group { members, ..Group::default() };
        let charts: Vec<(String, Vec<String>)> = group
            .charts()
            .into_iter()
            .map(|(title, lines)| (title, lines.into_iter().map(|line| line.name).collect()))
            .collect();
        let both = vec!["[rate=0.1]".to_owned(), "[rate=0.2]".to_owned()];
        let first = vec!["[rate=0.1]".to_owned()];
        let expected = [("Held-out loss", &first), ("Training loss", &both), ("loss/mel", &first)];
        assert_eq!(charts, expected.map(|(title, lines)| (title.to_owned(), lines.clone())));
        assert_eq!(group.best().map(|(member, ..)| &*member.label), Some("[rate=0.2]"));
    }

    #[test]
    fn more_trainings_than_colours_are_several_charts() {
        let names: Vec<String> = (0..LINES + 3).map(|at| at.to_string()).collect();
        let members = names.iter().map(|name| member(name, &["loss"], 1.0)).collect();
        let group = Group { members, ..Group::default() };
        let counts: Vec<usize> = group.charts().iter().map(|(_, lines)| lines.len()).collect();
        assert_eq!(counts, [LINES, 3]);
    }

    #[test]
    fn instances_of_a_matrix_share_the_name_before_the_brackets() {
        assert_eq!(split("train[rate=0.1]"), ("train", Some("[rate=0.1]")));
        assert_eq!(split("train"), ("train", None));
    }
}
