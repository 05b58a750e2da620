//! Live progress on a terminal: a bar for every running stage, finished ones as lines above.
//!
//! The drawing itself, resizing included, is indicatif's. A run that is over in a moment never
//! draws a bar.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use stage_core::event::Event;

use super::Reporter;
use super::escape::{clean, fit};
use super::lines::{Rate, figures, finished, message};
use super::paint::Paint;
use super::summary::Summary;
use super::units;

/// After this long something must be on the screen.
const PATIENCE: Duration = Duration::from_millis(80);
/// How often the times on the bars move while no event comes.
const TICK: Duration = Duration::from_millis(250);
const NAME_COLUMNS: usize = 24;

pub struct Live {
    state: Arc<Mutex<State>>,
    /// Where lines go that stay; the same terminal that the bars are drawn on.
    output: Box<dyn Write + Send>,
    paint: Paint,
    summary: Summary,
    /// Dropped to end the thread that shows that something is going on.
    patience: Option<(Sender<()>, JoinHandle<()>)>,
}

struct State {
    bars: MultiProgress,
    running: HashMap<String, Running>,
    /// What the run waits for while no stage runs.
    waiting: Option<ProgressBar>,
    what: String,
}

struct Running {
    bar: ProgressBar,
    quarantined: u64,
}

impl Live {
    pub fn new(target: ProgressDrawTarget, output: Box<dyn Write + Send>, paint: Paint) -> Live {
        Live::with_patience(target, output, paint, PATIENCE)
    }

    fn with_patience(
        target: ProgressDrawTarget,
        output: Box<dyn Write + Send>,
        paint: Paint,
        patience: Duration,
    ) -> Live {
        let state = Arc::new(Mutex::new(State {
            bars: MultiProgress::with_draw_target(target),
            running: HashMap::new(),
            waiting: None,
            what: "looking at what has changed".into(),
        }));
        let patience = Some(start_patience(state.clone(), patience));
        Live { state, output, paint, summary: Summary::default(), patience }
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn finish(&mut self, text: &str) -> io::Result<()> {
        if let Some((sender, thread)) = self.patience.take() {
            drop(sender);
            // It holds nothing that could be lost.
            let _ = thread.join();
        }
        let mut state = self.locked();
        state.clear_waiting();
        state.running.drain().for_each(|(_, running)| running.bar.finish_and_clear());
        drop(state);
        self.print(text)
    }

    /// Writes lines above the bars.
    fn print(&mut self, text: &str) -> io::Result<()> {
        let bars = self.locked().bars.clone();
        let output = &mut self.output;
        bars.suspend(|| output.write_all(text.as_bytes()).and_then(|()| output.flush()))
    }
}

/// Shows what is waited for when nothing has been drawn for a while.
fn start_patience(state: Arc<Mutex<State>>, patience: Duration) -> (Sender<()>, JoinHandle<()>) {
    let (sender, ended) = channel::<()>();
    let thread = std::thread::spawn(move || {
        while ended.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            if state.running.is_empty() && state.waiting.is_none() {
                state.show_waiting();
            }
        }
    });
    (sender, thread)
}

impl State {
    fn show_waiting(&mut self) {
        let bar = self.bars.add(ProgressBar::new_spinner());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} ({elapsed})") {
            bar.set_style(style);
        }
        bar.set_message(self.what.clone());
        bar.enable_steady_tick(TICK);
        self.waiting = Some(bar);
    }

    fn clear_waiting(&mut self) {
        if let Some(bar) = self.waiting.take() {
            bar.finish_and_clear();
        }
    }

    fn start(&mut self, stage: &str, total: u64) {
        self.clear_waiting();
        self.what = "finishing".into();
        let bar = self.bars.add(ProgressBar::new(total));
        bar.set_style(style());
        bar.set_prefix(fit(&clean(stage), NAME_COLUMNS).into_owned());
        bar.enable_steady_tick(TICK);
        self.running.insert(stage.to_owned(), Running { bar, quarantined: 0 });
    }

    fn progress(&mut self, stage: &str, done: u64, total: u64) {
        if let Some(running) = self.running.get(stage) {
            running.bar.set_length(total);
            running.bar.set_position(done);
        }
    }

    fn tell(&mut self, stage: &str, figures: String) {
        if let Some(running) = self.running.get(stage) {
            running.bar.set_message(figures);
        }
    }

    fn quarantined(&mut self, stage: &str) {
        if let Some(running) = self.running.get_mut(stage) {
            running.quarantined += 1;
            running.bar.set_message(format!("{} quarantined", units::count(running.quarantined)));
        }
    }

    fn end(&mut self, stage: &str) {
        if let Some(running) = self.running.remove(stage) {
            running.bar.finish_and_clear();
            self.bars.remove(&running.bar);
        }
    }

    fn wait(&mut self, what: &str) {
        self.what = format!("waiting for {}", clean(what));
        if let Some(bar) = &self.waiting {
            bar.set_message(self.what.clone());
        }
    }
}

/// Name, bar, counts, pace and time left; the pace is that of the stage so far, so that it does
/// not jump with every batch.
fn style() -> ProgressStyle {
    let template = format!("{{prefix:{NAME_COLUMNS}!}} {{bar:24}} {{pace}} {{msg}}");
    let style = ProgressStyle::with_template(&template);
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    style.progress_chars("=> ").with_key(
        "pace",
        |state: &ProgressState, text: &mut dyn std::fmt::Write| {
            let (done, total) = (state.pos(), state.len().unwrap_or(0));
            let _ = write!(text, "{}", Rate { done, total, elapsed: state.elapsed() });
        },
    )
}

impl Reporter for Live {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        self.summary.observe(event);
        let paint = self.paint;
        if let Event::Finished { status, stages, seconds } = event {
            let text = self.summary.render(*status, stages, *seconds, paint);
            return self.finish(&text);
        }
        let mut lines = match event {
            Event::Waiting { .. } => None,
            event => message(event, paint),
        };
        let mut state = self.locked();
        match event {
            Event::StageStarted { stage, total, .. } => state.start(stage, *total),
            Event::Progress { stage, done, total, .. } => state.progress(stage, *done, *total),
            Event::Metrics { stage, step, values } => state.tell(stage, figures(*step, values)),
            Event::ItemQuarantined { stage, .. } => state.quarantined(stage),
            Event::Waiting { what } => state.wait(what),
            Event::StageFinished { stage, counts, .. } => {
                state.end(stage);
                lines = (counts.executed > 0).then(|| finished(stage, counts, paint));
            }
            Event::StageFailed { stage, .. } => state.end(stage),
            _ => {}
        }
        drop(state);
        match lines {
            Some(lines) => self.print(&format!("{lines}\n")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::show::summary::tests::counts;
    use indicatif::TermLike;
    use stage_core::event::Status;
    use std::time::Instant;

    /// Keeps what is written, as a terminal of 100 columns would get it.
    #[derive(Clone, Debug, Default)]
    struct Screen(Arc<Mutex<String>>);

    impl TermLike for Screen {
        fn width(&self) -> u16 {
            100
        }

        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(&format!("{text}\n"))
        }

        fn write_str(&self, text: &str) -> io::Result<()> {
            self.0.lock().unwrap().push_str(text);
            Ok(())
        }

        fn clear_line(&self) -> io::Result<()> {
            Ok(())
        }

        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Write for Screen {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.write_str(&String::from_utf8_lossy(bytes))?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Screen {
        fn text(&self) -> String {
            self.0.lock().unwrap().clone()
        }

        fn wait_for(&self, text: &str) {
            let patience = Instant::now() + Duration::from_secs(20);
            while !self.text().contains(text) && Instant::now() < patience {
                std::thread::sleep(Duration::from_millis(5));
            }
            assert!(self.text().contains(text), "{text:?} is not in {:?}", self.text());
        }
    }

    fn live(screen: &Screen) -> Live {
        let target = ProgressDrawTarget::term_like(Box::new(screen.clone()));
        Live::new(target, Box::new(screen.clone()), Paint::default())
    }

    fn end(stage: &str) -> Event {
        let stages = [(stage.to_owned(), counts(3, 0, 1, 0.2))].into();
        Event::Finished { status: Status::Done, stages, seconds: 0.2 }
    }

    #[test]
    fn it_says_what_goes_on_before_the_first_event() {
        let screen = Screen::default();
        let _live = live(&screen);
        screen.wait_for("looking at what has changed");
    }

    #[test]
    fn a_run_with_nothing_to_do_draws_no_bar() {
        let screen = Screen::default();
        let stages = [("clips".to_owned(), counts(0, 30, 0, 0.0))].into();
        let finished = Event::Finished { status: Status::Done, stages, seconds: 0.0 };
        let target = ProgressDrawTarget::term_like(Box::new(screen.clone()));
        let mut live = Live::with_patience(
            target,
            Box::new(screen.clone()),
            Paint::default(),
            Duration::from_secs(3600),
        );
        live.event(&finished).unwrap();
        assert!(screen.text().contains("nothing to do: 30 reused"), "{:?}", screen.text());
        assert!(!screen.text().contains("looking"), "{:?}", screen.text());
    }

    #[test]
    fn running_stages_have_a_bar_and_finished_ones_a_line() {
        let screen = Screen::default();
        let mut live = live(&screen);
        let stage = || "voice\u{1b}[2J".to_owned();
        live.event(&Event::StageStarted { stage: stage(), total: 3, reasons: vec![] }).unwrap();
        live.event(&Event::Progress {
            stage: stage(),
            done: 2,
            total: 3,
            counts: counts(2, 0, 0, 0.1),
        })
        .unwrap();
        screen.wait_for("voice\\u{1b}[2J");
        screen.wait_for("2 of 3");
        let finished =
            Event::StageFinished { stage: stage(), counts: counts(3, 0, 1, 0.2), notes: [].into() };
        live.event(&finished).unwrap();
        live.event(&end("voice")).unwrap();
        let text = screen.text();
        assert!(text.contains("done, 3 executed, 1 quarantined, 0.20 s"), "{text:?}");
        assert!(text.contains("done in 0.20 s"), "{text:?}");
        assert!(!text.contains("voice\u{1b}[2J"), "{text:?}");
    }
}
