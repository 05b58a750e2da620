use std::time::Duration;

use engine::estimate::{Figure, StageEstimate};
use engine::event::Event;

use super::super::super::paint::Paint;
use super::*;
use crate::summary::tests::counts;

const MINUTE: Duration = Duration::from_secs(60);

/// A run in its fifth minute: one item stage, one training.
fn state(begun: Instant) -> LiveState {
    let mut state = LiveState::new(begun);
    let seconds = Figure::exact(2100.0);
    let voice = StageEstimate { seconds: Some(seconds), ..StageEstimate::unknown(4_000) };
    let stages = ["clips", "voi\u{7}ce", "model", "spoken"].map(str::to_owned).to_vec();
    let session = Event::Session {
        seconds_left: Some(11_640.0),
        price_per_hour: Some(1.2),
        spent: Some(0.74),
        budget: Some(5.0),
    };
    let begin = [
        Event::Started {
            run: 7,
            pipeline: "voice".into(),
            stages,
            time: None,
            process: None,
            machine: None,
        },
        Event::Estimated { stages: [("voice".to_owned(), voice)].into(), seconds },
        session,
        Event::StageFinished {
            stage: "clips".into(),
            counts: counts(1, 0, 0, 1.0),
            notes: [].into(),
        },
    ];
    begin.iter().for_each(|event| state.observe(event, begun));
    let voice = || "voi\u{7}ce".to_owned();
    let items = [
        Event::StageStarted { stage: voice(), total: 4_000, reasons: vec![], trial: None },
        Event::Progress { stage: voice(), done: 332, total: 4_000, counts: counts(1, 331, 1, 0.0) },
        Event::ItemQuarantined {
            stage: voice(),
            item: "a".into(),
            code: "c".into(),
            reason: "r".into(),
        },
        Event::StageStarted { stage: "model".into(), total: 1, reasons: vec![], trial: None },
        Event::Progress {
            stage: "model".into(),
            done: 1_001,
            total: 5_000,
            counts: counts(0, 0, 0, 0.0),
        },
    ];
    items.iter().for_each(|event| state.observe(event, begun + MINUTE));
    for step in 1_001..=1_240 {
        let loss = 2.0 + 500.0 / f64::from(step - 940);
        let values = [("loss", loss), ("rate", 1e-4), ("held_out", 2.5)];
        let values = values.map(|(name, value)| (name.to_owned(), value)).into();
        state.observe(&Event::Metrics { stage: "model".into(), step: step as u64, values }, begun);
    }
    let later = [
        Event::Progress {
            stage: voice(),
            done: 2_731,
            total: 4_000,
            counts: counts(2_400, 331, 1, 0.0),
        },
        Event::Progress {
            stage: "model".into(),
            done: 1_240,
            total: 5_000,
            counts: counts(0, 0, 0, 0.0),
        },
        Event::CheckpointKept { stage: "model".into(), bytes: 64_000_000, seconds: 0.2 },
    ];
    later.iter().for_each(|event| state.observe(event, begun + 3 * MINUTE));
    state
}

fn shown(size: Size) -> String {
    let begun = Instant::now();
    let gpu = GpuReading {
        name: "cuda:0".into(),
        model: "NVIDIA H100 80GB HBM3".into(),
        busy: Some(0.97),
        used_bytes: 31_200_000_000,
        total_bytes: 85_000_000_000,
    };
    let processor = GpuReading {
        name: "processor".into(),
        model: String::new(),
        busy: None,
        used_bytes: 6_100_000_000,
        total_bytes: 16_000_000_000,
    };
    let lines = lines(&state(begun), &[gpu, processor], begun + 4 * MINUTE, size);
    assert!(lines.len() < size.1, "{} lines in {} rows", lines.len(), size.1);
    let lines = lines.iter().map(|line| line.render(size.0 - 1, Paint::default()));
    let lines: Vec<String> = lines.map(|line| line.trim_end().to_owned()).collect();
    assert!(lines.iter().all(|line| width(line) < size.0), "{lines:#?}");
    lines.join("\n")
}

#[test]
fn a_wide_terminal_shows_all() {
    insta::assert_snapshot!(shown((120, 40)), @r"
      voi\u{7}ce  ━━━━━━━━━━━━━━━━━━━─────────       2,731/4,000  13.3/s   1m35s left  1 quarantined
      model       ━━━━━━──────────────────────  step 1,240/5,000   1.3/s  47m12s left
                  loss 3.667  █▇▇▆▆▅▅▅▅▄▄▄▄▃▃▃▃▃▃▃▃▂▂▂▂▂▂▂▂▂▂▂▂▂▂▁▁▁▁▁▁▁▁▁▁▁▁▁
                  learning rate 0.0001 · held out 2.5 · checkpoint at 1,240, 1m00s ago

      cuda:0       97 % busy  31 GB of 85 GB  NVIDIA H100 80GB HBM3
      processor               6.1 GB of 16 GB

      1 of 4 stages · 4m00s of about 35m00s · 0.82 of 5.00 spent · stops in 3h10m · 1 quarantined
    ");
}

#[test]
fn at_80_columns_bars_and_curves_are_shorter() {
    insta::assert_snapshot!(shown((80, 24)), @r"
      voi\u{7}ce  ━━━━━━━────       2,731/4,000  13.3/s   1m35s left  1 quarantined
      model       ━━─────────  step 1,240/5,000   1.3/s  47m12s left
                  loss 3.667  █▇▇▆▆▅▅▅▅▄▄▄▄▃▃▃▃▃▃▃▃▂▂▂▂▂▂▂▂▂▂▂▂▂▂▁▁▁▁▁▁▁▁▁▁▁▁▁
                  learning rate 0.0001 · held out 2.5
                  checkpoint at 1,240, 1m00s ago

      cuda:0       97 % busy  31 GB of 85 GB  NVIDIA H100 80GB HBM3
      processor               6.1 GB of 16 GB

      1 of 4 stages · 4m00s of about 35m00s · 0.82 of 5.00 spent · stops in 3h10m
      1 quarantined
    ");
}

#[test]
fn at_40_columns_the_counts_and_the_time_left_remain() {
    insta::assert_snapshot!(shown((40, 24)), @r"
      voi\u{7}ce  2,731/4,000   1m35s left
      model       1,240/5,000  47m12s left
        loss 3.667  █▇▆▅▅▄▄▃▃▃▂▂▂▂▂▂▂▁▁▁▁▁▁
        learning rate 0.0001 · held out 2.5
        checkpoint at 1,240, 1m00s ago

      cuda:0       97 %  31 GB of 85 GB
      processor          6.1 GB of 16 GB

      1 of 4 stages · 4m00s of about 35m00s
      0.82 of 5.00 spent · stops in 3h10m
      1 quarantined
    ");
}

#[test]
fn in_a_low_terminal_stages_come_before_devices() {
    insta::assert_snapshot!(shown((80, 6)), @r"
      voi\u{7}ce  ━━━━━━━────       2,731/4,000  13.3/s   1m35s left  1 quarantined
      and 4 more lines
      1 of 4 stages · 4m00s of about 35m00s · 0.82 of 5.00 spent · stops in 3h10m
      1 quarantined
    ");
}

#[test]
fn a_terminal_of_one_column_is_no_reason_to_fail() {
    for size in [(1, 1), (2, 3), (9, 2), (20, 50)] {
        let begun = Instant::now();
        let lines = lines(&state(begun), &[GpuReading::default()], begun + MINUTE, size);
        lines.iter().for_each(|line| {
            assert!(width(&line.render(size.0 - 1, Paint::default())) < size.0);
        });
    }
}
