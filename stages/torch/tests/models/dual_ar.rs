//! The text model against itself: changes that must not affect its results.

use std::collections::BTreeMap;

use stage_torch::dual_ar::{
    ClipColumns, DualAr, DualArBatch, DualArConfig, DualArSampling, DualArSentence, DualArSpeech,
    Parity, RowFrames, SeededNoise, SpecialTokens, Stop,
};
use stage_torch::fish::{DualArMemory, DualArTrainee};
use stage_torch::layers::Pass;
use stage_torch::lora::{Adaptable, LoraSettings, adapters, attach};
use stage_torch::random::Random;
use stage_torch::train::{Phase, Totals, Trainee};
use stage_torch::weights::Weights;
use stage_torch::{copies, waits};
use tch::{Device, Kind, Tensor};

const TOKENS: SpecialTokens = SpecialTokens { semantic_begin: 20, im_end: 3 };

fn config(more: &str) -> DualArConfig {
    let fast_dim = if more.contains("fast_dim") { "" } else { r#""fast_dim": 12,"# };
    let json = format!(
        r#"{{"model_type": "dual_ar", "vocab_size": 28, "n_layer": 3, "dim": 16, "n_head": 4,
            "n_local_heads": 2, "head_dim": 8, "intermediate_size": 24, "codebook_size": 8,
            "num_codebooks": 3, "n_fast_layer": 2, {fast_dim} "fast_n_head": 2,
            "fast_head_dim": 8, "attention_qk_norm": true, "fast_attention_qk_norm": false,
            "tie_word_embeddings": false, "scale_codebook_embeddings": true,
            "initializer_range": 0.3, "max_seq_len": 64 {more}}}"#
    );
    DualArConfig::parse(json.as_bytes()).unwrap()
}

fn model() -> DualAr {
    // So small that threads only wait for each other.
    tch::set_num_threads(1);
    let config = config("");
    let weights = DualAr::fresh(&config, 7);
    DualAr::load(config, TOKENS, weights).unwrap()
}

/// As `configure_optimizers` of the original (commit d3df505): `.embeddings.` is in no other name.
#[test]
fn biases_norms_and_the_embeddings_of_words_do_not_decay_and_those_of_codes_do() {
    let memory = DualArMemory { recompute: false, positions: 8, frames: 8 };
    let trainee = DualArTrainee::new(model().train_all(), memory).unwrap();
    let parameters = trainee.parameters();
    let kept = parameters.iter().filter(|(name, tensor)| !DualArTrainee::decays(name, tensor));
    let kept: Vec<&str> = kept.map(|(name, _)| name.as_str()).collect();
    let is_meant = |name: &str| {
        name.contains("norm") || name.ends_with(".bias") || name == "embeddings.weight"
    };
    assert!(kept.iter().all(|name| is_meant(name)), "{kept:?}");
    assert_eq!(kept.len(), parameters.iter().filter(|(name, _)| is_meant(name)).count());
    let adapter = Tensor::zeros([2, 2], (Kind::Float, Device::Cpu));
    assert!(!DualArTrainee::decays("embeddings.lora_A", &adapter));
    assert!(DualArTrainee::decays("fast_embeddings.lora_A", &adapter));
}

/// Text, then frames, all of them with labels.
fn clip(number: i32, text: i32, frames: i32) -> ClipColumns {
    let length = (text + frames) as usize;
    let code = |line: i32, at: i32| (number * 5 + line * 3 + at * at) % 8;
    let mut clip = ClipColumns { tokens: vec![0; 4 * length], labels: vec![-100; 4 * length] };
    for at in 0..length as i32 {
        for line in 0..4 {
            let place = line as usize * length + at as usize;
            let is_frame = at >= text;
            clip.tokens[place] = match (line, is_frame) {
                (0, true) => 20 + code(1, at),
                (0, false) => (number + at) % 20,
                (_, true) => code(line, at),
                (_, false) => 0,
            };
            let next = at + 1;
            clip.labels[place] = match line {
                0 if next == text + frames => TOKENS.im_end as i32,
                0 if next >= text => 20 + code(1, next),
                _ if next >= text && next < text + frames => code(line, next),
                _ => -100,
            };
        }
    }
    clip
}

fn batch() -> DualArBatch {
    let clips = [clip(1, 4, 9), clip(2, 3, 5), clip(3, 6, 12)];
    DualArBatch::new(3, &clips.iter().map(|clip| vec![clip]).collect::<Vec<_>>(), 1).unwrap()
}

/// Adapters with dropout on every module that accepts one; the rest is frozen.
fn adapt(model: &mut DualAr) {
    let patterns = vec!["*".to_owned()];
    attach(model, &LoraSettings { rank: 2, alpha: 4.0, dropout: 0.3, patterns }, 1).unwrap();
    let mut random = Random::new(3);
    let _guard = tch::no_grad_guard();
    for (_, tensor) in &mut adapters(model) {
        tensor.copy_(&random.normal(&tensor.size(), 0.1));
    }
}

/// Gradients by name, and both losses.
fn derived(
    trainee: &mut DualArTrainee,
    batches: &[DualArBatch],
) -> (BTreeMap<String, Tensor>, Vec<f64>) {
    let mut totals = Totals::default();
    batches.iter().for_each(|batch| totals.add(&DualArTrainee::count(batch)));
    let mut losses = None;
    for batch in batches {
        let new = trainee.accumulate(batch, &Phase::only(&totals, 11)).unwrap();
        match &mut losses {
            None => losses = Some(new),
            Some(losses) => losses.add(new),
        }
    }
    let gradient = |(name, tensor): (String, Tensor)| (name, tensor.grad().copy());
    let means = losses.unwrap().means(&totals).0;
    let gradients = trainee.parameters().into_iter().map(gradient).collect();
    (gradients, means.into_iter().map(|(_, mean)| mean).collect())
}

fn trainee(memory: DualArMemory) -> DualArTrainee {
    DualArTrainee::new(model().train_all(), memory).unwrap()
}

const WHOLE: DualArMemory = DualArMemory { recompute: false, positions: 1 << 20, frames: 1 << 20 };

fn assert_near(one: &BTreeMap<String, Tensor>, other: &BTreeMap<String, Tensor>) {
    assert_eq!(one.keys().collect::<Vec<_>>(), other.keys().collect::<Vec<_>>());
    for (name, gradient) in one {
        let size = gradient.abs().max().double_value(&[]);
        let far = (gradient - &other[name]).abs().max().double_value(&[]);
        assert!(far <= 1e-5 * size.max(1e-3), "`{name}` is off by {far} of {size}");
    }
}

#[test]
fn running_blocks_again_changes_no_gradient() {
    for pieces in [1 << 20, 5] {
        let memory = DualArMemory { recompute: false, positions: pieces, frames: pieces };
        let plain = derived(&mut trainee(memory), &[batch()]);
        let again = derived(&mut trainee(DualArMemory { recompute: true, ..memory }), &[batch()]);
        assert_eq!(plain, again);
        assert!(plain.0.values().all(|gradient| gradient.abs().max().double_value(&[]) > 0.0));
    }
}

#[test]
fn running_blocks_again_drops_what_was_dropped_before() {
    let run = |recompute: bool, seed: u64| {
        let mut model = model();
        adapt(&mut model);
        let mut trainee = DualArTrainee::new(model, DualArMemory { recompute, ..WHOLE }).unwrap();
        let totals = DualArTrainee::count(&batch());
        let losses = trainee.accumulate(&batch(), &Phase::only(&totals, seed)).unwrap();
        let gradients: Vec<Tensor> =
            trainee.parameters().iter().map(|(_, tensor)| tensor.grad().copy()).collect();
        (gradients, losses.means(&totals))
    };
    assert_eq!(run(true, 5), run(false, 5));
    assert_ne!(run(true, 5).1, run(true, 6).1);
}

#[test]
fn only_adapters_are_trained_where_the_rest_is_frozen() {
    let mut model = model();
    adapt(&mut model);
    let modules = Adaptable::layers(&mut model).len();
    let trainee = DualArTrainee::new(model, DualArMemory::default()).unwrap();
    let names: Vec<String> = trainee.parameters().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), 2 * modules);
    assert!(names.is_sorted() && names.iter().all(|name| name.contains(".lora_")));
    assert!(names.contains(&"fast_layers.1.feed_forward.w2.lora_A".to_owned()));
}

#[test]
fn pieces_change_no_gradient_by_more_than_rounding() {
    let (whole, losses) = derived(&mut trainee(WHOLE), &[batch()]);
    let memory = DualArMemory { recompute: true, positions: 3, frames: 2 };
    let (pieces, others) = derived(&mut trainee(memory), &[batch()]);
    assert_near(&whole, &pieces);
    for (one, other) in losses.iter().zip(others) {
        assert!((one - other).abs() < 1e-5, "{one} {other}");
    }
}

#[test]
fn clips_that_share_a_row_are_as_if_alone() {
    let clips = [clip(1, 4, 9), clip(2, 3, 5), clip(3, 6, 12), clip(4, 2, 2)];
    let alone: Vec<DualArBatch> =
        clips.iter().map(|clip| DualArBatch::new(3, &[vec![clip]], 1).unwrap()).collect();
    let (alone, losses) = derived(&mut trainee(WHOLE), &alone);
    let rows = [vec![&clips[0], &clips[1]], vec![&clips[2]], vec![&clips[3]]];
    let packed = DualArBatch::new(3, &rows, 1).unwrap();
    let (packed, others) = derived(&mut trainee(DualArMemory::default()), &[packed]);
    assert_near(&alone, &packed);
    assert!((losses[0] - others[0]).abs() < 1e-5 && (losses[1] - others[1]).abs() < 1e-5);
}

#[test]
fn evaluating_gives_the_losses_of_training_without_dropout() {
    let mut trainee = trainee(DualArMemory::default());
    let (_, losses) = derived(&mut trainee, &[batch()]);
    let totals = DualArTrainee::count(&batch());
    let evaluated = trainee.evaluate(&batch()).unwrap().means(&totals).0;
    for (one, (_, other)) in losses.iter().zip(&evaluated) {
        assert!((one - other).abs() < 1e-6, "{one} {other}");
    }
}

#[test]
fn a_fresh_model_is_about_as_good_as_guessing() {
    let config = config(r#", "rope_base": 1000"#);
    let config = DualArConfig { initializer_range: 0.02, ..config };
    let weights = DualAr::fresh(&config, 1);
    let model = DualAr::load(config, TOKENS, weights).unwrap();
    let trainee = DualArTrainee::new(model, DualArMemory::default()).unwrap();
    let totals = DualArTrainee::count(&batch());
    let means = trainee.evaluate(&batch()).unwrap().means(&totals).0;
    assert!((means[0].1 - 28f64.ln()).abs() < 0.1, "{means:?}");
    assert!((means[1].1 - 8f64.ln()).abs() < 0.1, "{means:?}");
}

#[test]
fn upstream_trains_without_scaling_and_so_differs() {
    let losses = |parity: Parity| {
        let trainee =
            DualArTrainee::new(model().with_parity(parity), DualArMemory::default()).unwrap();
        let totals = DualArTrainee::count(&batch());
        trainee.evaluate(&batch()).unwrap().means(&totals).total()
    };
    assert_ne!(losses(Parity::Correct), losses(Parity::Upstream));
}

/// The columns of a clip, and its numbers: [1 + K, T].
fn columns(clip: &ClipColumns) -> Tensor {
    Tensor::from_slice(&clip.tokens).to_kind(Kind::Int64).view([4, -1])
}

#[test]
fn steps_through_the_cache_are_those_of_the_whole_row() {
    let _guard = tch::no_grad_guard();
    let model = model();
    let row = columns(&clip(1, 5, 12));
    let length = row.size()[1];
    let x = model.embed(&row.unsqueeze(0), true);
    let states = model.slow(&x, &model.causal(length), Pass::Evaluate).squeeze_dim(0);
    let (mut caches, mut state) = model.prefill(&[&row.narrow(1, 0, 5)], length);
    for at in 4..length {
        if at > 4 {
            state = model.follow(&row.narrow(1, at, 1).tr(), &mut caches);
        }
        let far = (&state - states.narrow(0, at, 1)).abs().max().double_value(&[]);
        assert!(far < 1e-5, "column {at} is off by {far}");
    }
    let codes = row.narrow(0, 1, 3).narrow(1, 6, 1).transpose(0, 1);
    let state = states.narrow(0, 5, 1);
    let inputs = model.fast_inputs(&state, &codes, Pass::Evaluate);
    let whole = model.fast_logits(&model.fast(&inputs, Pass::Evaluate), Pass::Evaluate);
    let _ = model.begin_frame(&state, &mut caches);
    let step = |place| model.follow_fast(&inputs.select(1, place), &mut caches);
    let steps: Vec<Tensor> = (0..3).map(step).map(|x| model.fast_step_logits(&x, 8)).collect();
    let far = (Tensor::cat(&steps, 0) - whole.squeeze_dim(0)).abs().max();
    assert!(far.double_value(&[]) < 1e-5);
}

#[test]
fn half_precision_points_the_same_way() {
    let _guard = tch::no_grad_guard();
    let config = config("");
    let weights = DualAr::fresh(&config, 7);
    let half = weights.moved(Device::Cpu, Some(Kind::BFloat16));
    let half = DualAr::load(config, TOKENS, half).unwrap();
    let row = columns(&clip(1, 5, 12)).unsqueeze(0);
    let logits = |model: &DualAr| {
        let layout = model.causal(row.size()[2]);
        let states = model.slow(&model.embed(&row, true), &layout, Pass::Evaluate);
        model.logits(&states, Pass::Evaluate).to_kind(Kind::Float).view(-1)
    };
    let (whole, half) = (logits(&model()), logits(&half));
    let norm = |x: &Tensor| x.square().sum(Kind::Float).sqrt();
    let cosine = (&whole * &half).sum(Kind::Float) / (norm(&whole) * norm(&half));
    assert!(cosine.double_value(&[]) > 0.999, "{cosine:?}");
}

const PROMPT: [i32; 16] = [5, 6, 21, 7, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0];

const EVEN: DualArSampling =
    DualArSampling { temperature: 1.0, top_p: 1.0, repetition_penalty: 1.1, semantic_only: true };

/// A sentence to synthesise: its prompt, seed, and the limits of its frames.
#[derive(Clone)]
struct Asked {
    prompt: Vec<i32>,
    seed: u64,
    most: usize,
    least: usize,
}

impl Asked {
    fn new(seed: u64, most: usize) -> Asked {
        Asked { prompt: PROMPT.to_vec(), seed, most, least: 0 }
    }
}

fn draw(model: &DualAr, asked: &[Asked], sampling: &DualArSampling) -> Vec<RowFrames> {
    let mut noises: Vec<SeededNoise> =
        asked.iter().map(|asked| SeededNoise::new(asked.seed)).collect();
    let sentences = asked.iter().zip(&mut noises).map(|(asked, noise)| {
        let Asked { prompt, most, least, .. } = asked;
        DualArSentence { prompt, most: *most, least: *least, noise }
    });
    model.draw(sentences.collect(), sampling).unwrap()
}

#[test]
fn a_frame_is_read_once_and_uploaded_once_and_nothing_else_waits_for_numbers() {
    let model = model();
    let count = |frames: usize| {
        let asked = |seed| Asked { least: frames, ..Asked::new(seed, frames) };
        let before = copies();
        let (drawn, waits) = waits(|| draw(&model, &[asked(1), asked(2)], &EVEN)).unwrap();
        assert!(drawn.iter().all(|drawn| drawn.frames.len() == frames));
        let after = copies();
        [after.reads - before.reads, after.uploads - before.uploads, waits]
    };
    let (ten, thirty) = (count(10), count(30));
    let more: Vec<u64> = thirty.iter().zip(ten).map(|(thirty, ten)| thirty - ten).collect();
    // On a CPU the noise comes from the host; a GPU draws its own.
    assert_eq!(more, [20, 20, 0]);
}

fn speak(model: &DualAr, asked: &Asked, sampling: &DualArSampling) -> DualArSpeech {
    let mut noise = SeededNoise::new(asked.seed);
    let Asked { prompt, most, least, .. } = asked;
    let sentence = DualArSentence { prompt, most: *most, least: *least, noise: &mut noise };
    model.generate(vec![sentence], sampling).unwrap().remove(0)
}

#[test]
fn the_same_seed_speaks_the_same_and_another_one_differently() {
    let model = model();
    let speak = |seed| speak(&model, &Asked::new(seed, 12), &EVEN);
    assert_eq!(speak(1), speak(1));
    assert_ne!(speak(1), speak(2));
    let speech = speak(1);
    assert_eq!(speech.codes.len(), 3 * speech.frames);
    assert!(speech.codes.iter().all(|code| (0..8).contains(code)));
}

/// Sentences of unequal prompts, limits and minimum lengths.
fn asked(count: usize) -> Vec<Asked> {
    let sentence = |at: usize| {
        let clip = clip(at as i32, 2 + (at * 5 % 7) as i32, (at * 3 % 5) as i32);
        Asked { prompt: clip.tokens, seed: at as u64, most: 5 + at * 7 % 20, least: at % 4 }
    };
    (0..count).map(sentence).collect()
}

#[test]
fn a_sentence_is_the_same_alone_and_in_any_batch() {
    let model = model();
    let asked = asked(17);
    for sampling in
        [EVEN, DualArSampling::default(), DualArSampling { semantic_only: false, ..EVEN }]
    {
        let alone: Vec<RowFrames> = asked
            .iter()
            .flat_map(|asked| draw(&model, std::slice::from_ref(asked), &sampling))
            .collect();
        let stops = |stop| alone.iter().filter(|drawn| drawn.stop == stop).count();
        assert!(stops(Stop::Limit) > 0 && stops(Stop::End) > 0, "nothing is shown");
        for size in [2, 3, 5, 8, 17] {
            let batches = asked.chunks(size);
            let together: Vec<RowFrames> =
                batches.flat_map(|batch| draw(&model, batch, &sampling)).collect();
            assert_eq!(together, alone, "in batches of {size}");
        }
        let backwards: Vec<Asked> = asked.iter().rev().cloned().collect();
        let mut together = draw(&model, &backwards, &sampling);
        together.reverse();
        assert_eq!(together, alone);
    }
}

#[test]
fn states_are_the_same_to_the_bit_in_any_batch() {
    let _guard = tch::no_grad_guard();
    // Widths that are no multiple of a vector, so that libtorch would compute their last numbers in
    // another way.
    let config = DualArConfig::parse(
        r#"{"model_type": "dual_ar", "vocab_size": 28, "n_layer": 2, "dim": 20, "n_head": 2,
            "n_local_heads": 1, "head_dim": 10, "intermediate_size": 37, "codebook_size": 8,
            "num_codebooks": 3, "n_fast_layer": 1, "fast_dim": 12, "fast_n_head": 2,
            "fast_head_dim": 6, "attention_qk_norm": true, "fast_attention_qk_norm": true,
            "tie_word_embeddings": true, "scale_codebook_embeddings": true,
            "norm_fastlayer_input": true, "initializer_range": 0.3, "max_seq_len": 64}"#
            .as_bytes(),
    )
    .unwrap();
    let weights = DualAr::fresh(&config, 5);
    let model = DualAr::load(config, TOKENS, weights).unwrap();
    let prompts: Vec<Tensor> = asked(9)
        .iter()
        .map(|asked| Tensor::from_slice(&asked.prompt).to_kind(Kind::Int64).view([4, -1]))
        .collect();
    let rows: Vec<Tensor> = (1..10).map(|row| columns(&clip(row, 0, 9))).collect();
    let states = |from: usize, count: usize| {
        let prompts: Vec<&Tensor> = prompts[from..from + count].iter().collect();
        let (mut caches, mut state) = model.prefill(&prompts, 9);
        for at in 0..9 {
            let columns: Vec<Tensor> =
                rows[from..from + count].iter().map(|row| row.select(1, at)).collect();
            state = model.follow(&Tensor::stack(&columns, 0), &mut caches);
        }
        let first = model.begin_frame(&state, &mut caches);
        let fast = model.follow_fast(&first, &mut caches);
        Tensor::cat(&[state, model.fast_step_logits(&fast, 8)], 1)
    };
    let alone: Vec<Tensor> = (0..9).map(|row| states(row, 1)).collect();
    for size in [2, 3, 5, 8, 9] {
        for from in 0..=9 - size {
            assert_eq!(states(from, size), Tensor::cat(&alone[from..from + size], 0));
        }
    }
}

#[test]
fn the_reason_to_stop_is_told_and_the_end_is_no_frame() {
    let model = model();
    let mut stops = BTreeMap::new();
    for seed in 0..40 {
        let asked = Asked::new(seed, 6);
        let RowFrames { frames, stop } =
            draw(&model, std::slice::from_ref(&asked), &EVEN).remove(0);
        let ends = frames.last().is_some_and(|frame| frame[0] == TOKENS.im_end);
        assert_eq!(stop == Stop::End, ends);
        assert_eq!(speak(&model, &asked, &EVEN).frames, frames.len() - usize::from(ends));
        // Text is masked out.
        assert!(frames.iter().all(|frame| frame[0] == 3 || (20..28).contains(&frame[0])));
        *stops.entry(format!("{stop:?}")).or_insert(0) += 1;
    }
    assert_eq!(stops.keys().collect::<Vec<_>>(), ["End", "Limit"]);
}

#[test]
fn speech_does_not_end_before_its_least_length() {
    let model = model();
    let frames = |seed, least| {
        let asked = Asked { least, ..Asked::new(seed, 6) };
        let drawn = draw(&model, &[asked], &EVEN).remove(0);
        drawn.frames.iter().filter(|frame| frame[0] != TOKENS.im_end).count()
    };
    assert!((0..40).any(|seed| frames(seed, 0) < 4), "no seed ends early");
    assert!((0..40).all(|seed| frames(seed, 4) >= 4));
}

#[test]
fn speech_ends_where_the_positions_do() {
    let model = model();
    let output = model.tensors().into_iter().find(|(name, _)| name == "output.weight").unwrap().1;
    // An end that is never the most likely.
    let _ = output.narrow(0, TOKENS.im_end, 1).fill_(0.0);
    let sampling =
        DualArSampling { temperature: 0.0, repetition_penalty: 1.0, ..DualArSampling::default() };
    let speech = speak(&model, &Asked::new(1, 1000), &sampling);
    assert_eq!((speech.stop, speech.frames), (Stop::Full, 60));
}

#[test]
fn a_prompt_of_another_model_is_refused() {
    let model = model();
    let speak = |prompt: &[i32]| {
        let mut noise = SeededNoise::new(1);
        let sentence = DualArSentence { prompt, most: 3, least: 0, noise: &mut noise };
        model.generate(vec![sentence], &DualArSampling::default()).unwrap_err().to_string()
    };
    assert!(speak(&[1, 2, 3]).contains("do not fill 4 lines"));
    assert!(
        speak(&[28, 0, 0, 0])
            .contains("check that the tokenizer and the codec belong to this model")
    );
    assert!(speak(&[1, 8, 0, 0]).contains("codes above 8"));
    assert!(speak(&[0; 4 * 64]).contains("64 positions"));
}

#[test]
fn older_files_have_queries_keys_and_values_apart() {
    let config = config("");
    let weights = DualAr::fresh(&config, 7);
    let mut apart = Weights::default();
    for (name, tensor) in weights {
        match name.strip_suffix("wqkv.weight") {
            Some(prefix) if name.starts_with("layers") => {
                for (part, rows) in
                    ["wq", "wk", "wv"].iter().zip(tensor.split_with_sizes([32, 16, 16], 0))
                {
                    apart.insert(format!("{prefix}{part}.weight"), rows);
                }
            }
            _ => apart.insert(name, tensor),
        }
    }
    let joined = DualAr::load(config, TOKENS, apart).unwrap();
    assert_eq!(joined.tensors(), model().tensors());
}

#[test]
fn tensors_are_all_those_of_the_configuration() {
    for more in ["", r#", "fast_dim": 16, "attention_qkv_bias": true, "attention_o_bias": true"#] {
        let config = config(more);
        let weights = DualAr::fresh(&config, 1);
        let model = DualAr::load(config.clone(), TOKENS, weights).unwrap();
        let mut expected = config.tensors();
        expected.sort();
        let there = model.tensors().into_iter().map(|(name, tensor)| (name, tensor.size()));
        assert_eq!(there.collect::<Vec<_>>(), expected);
    }
}

#[test]
fn a_tokenizer_that_does_not_fit_is_refused() {
    let config = config("");
    let weights = DualAr::fresh(&config, 1);
    let tokens = SpecialTokens { semantic_begin: 21, im_end: 3 };
    let error = DualAr::load(config, tokens, weights).unwrap_err().to_string();
    assert!(error.contains("do not fit into a vocabulary of 28"), "{error}");
}
