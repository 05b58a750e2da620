//! Executors, and the stages that run on them.

use manifest::pipeline::Adapter;
use manifest::{FileKind, LoadOptions, load};

const MANIFEST: &str = r#"
[pipeline]
name = "p"

[executor.cluster]
use = "slurm"
partition = "gpu"
time = "12h"
setup = ["module load cuda"]
default_for = "gpu"

[executor.boxes]
use = "command"
command = "exec $THROSTLE_WORK"
max_jobs = 3

[stage.clips]
use = "corpus.table"
table = "t.csv"
audio = "wavs"

[stage.voice]
use = "audio.resample"
input = "clips"
rate = "8kHz"
executor = "boxes"

[stage.other]
use = "audio.resample"
input = "clips"
rate = "9kHz"
"#;

#[test]
fn a_stage_runs_where_its_key_says_and_here_by_default() {
    let options = LoadOptions::default();
    let (file, catalogue) = ("pipeline.toml".into(), stage_speech::catalogue());
    let loaded = load(MANIFEST, file, &catalogue, &options, &|_| FileKind::File).unwrap();
    let pipeline = loaded.pipeline;
    let executor = |name: &str| pipeline.find(name).and_then(|s| s.policy.executor.as_deref());
    assert_eq!(executor("voice"), Some("boxes"));
    assert_eq!((executor("clips"), executor("other")), (None, None));
    let cluster = &pipeline.executors["cluster"];
    let Adapter::Slurm(slurm) = &cluster.adapter else { panic!("{cluster:?}") };
    assert_eq!(slurm.time_seconds, Some(43_200.0));
    assert_eq!(slurm.setup, ["module load cuda"]);
    assert_eq!((cluster.max_jobs, pipeline.executors["boxes"].max_jobs), (64, 3));
    assert!(cluster.takes_gpus && !cluster.cancels);
}
