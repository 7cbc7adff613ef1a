//! Who runs the command: the program `ixion`, whose user reads stderr, or another program, which is told instead.

use std::cell::RefCell;
use std::fmt::Display;
use std::io::{self, Write};
use std::rc::Rc;

/// What a program learns of long work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The work begins, and has this many steps.
    Begin(usize),
    /// A step is done.
    Step,
}

/// A function of a program that is told of progress.
pub type Listener = Rc<dyn Fn(Progress)>;

thread_local! {
    /// The listener of the program for which this thread runs the command. Bars, spinners and notes begin in functions that know
    /// neither the terminal nor the caller.
    static LISTENER: RefCell<Option<Listener>> = const { RefCell::new(None) };
}

/// Calls `work` for a program. On this thread, bars tell the listener of their steps, spinners show nothing, and notes go to the
/// log.
pub(super) fn on_behalf<T>(listener: Listener, work: impl FnOnce() -> T) -> T {
    let _before = Before(LISTENER.replace(Some(listener)));
    work()
}

/// The listener before the work, which is restored even if the work panics.
struct Before(Option<Listener>);

impl Drop for Before {
    fn drop(&mut self) {
        LISTENER.set(self.0.take());
    }
}

/// The listener of the program for which this thread runs the command; `None` if its user does.
pub(super) fn listener() -> Option<Listener> {
    LISTENER.with_borrow(Clone::clone)
}

/// Writes a line to stderr that begins with its kind, such as `warning`; for a program, a message to the log.
pub(super) fn tell(kind: &str, text: impl Display) {
    match listener() {
        Some(_) => log::warn!("{text}"),
        // Nobody can be told that stderr is closed.
        None => _ = writeln!(io::stderr(), "{kind}: {text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn a_listener_is_forgotten_when_the_work_ends() {
        let told = Rc::new(RefCell::new(Vec::new()));
        let all = Rc::clone(&told);
        let hear: Listener = Rc::new(move |progress| all.borrow_mut().push(progress));
        on_behalf(Rc::clone(&hear), || {
            let listener = listener().unwrap();
            listener(Progress::Begin(1));
            listener(Progress::Step);
        });
        assert_eq!(*told.borrow(), [Progress::Begin(1), Progress::Step]);
        assert!(listener().is_none());
        catch_unwind(AssertUnwindSafe(|| on_behalf::<()>(hear, || panic!("on purpose")))).unwrap_err();
        assert!(listener().is_none());
    }
}
