//! The programs that stages have started and that run at this moment.
//!
//! They would go on alone if the process ended under them. Who ends it at once, with no time for
//! stages to clean up, ends them first.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

/// Ends a program and all that it has started.
pub type End = Box<dyn Fn() + Send>;

struct Register {
    last: u64,
    programs: BTreeMap<u64, End>,
}

/// Held while a program is started and not in the register yet.
static STARTING: RwLock<()> = RwLock::new(());
static REGISTER: Mutex<Register> = Mutex::new(Register { last: 0, programs: BTreeMap::new() });

fn register() -> MutexGuard<'static, Register> {
    REGISTER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A program in the register, until it is dropped.
pub struct Running(u64);

impl Drop for Running {
    fn drop(&mut self) {
        register().programs.remove(&self.0);
    }
}

/// Starts a program and enters it with what would end it.
///
/// # Errors
///
/// Those of `start`.
pub fn start<P, E>(
    start: impl FnOnce() -> Result<P, E>,
    end: impl FnOnce(&P) -> End,
) -> Result<(P, Running), E> {
    let _starting = STARTING.read().unwrap_or_else(PoisonError::into_inner);
    let program = start()?;
    let mut register = register();
    register.last += 1;
    let number = register.last;
    register.programs.insert(number, end(&program));
    Ok((program, Running(number)))
}

/// Ends all that runs. Nothing is started any more: whoever tries to waits for ever, so the
/// caller has to end the process.
pub fn end_all() {
    std::mem::forget(STARTING.write().unwrap_or_else(PoisonError::into_inner));
    register().programs.values().for_each(|end| end());
}
