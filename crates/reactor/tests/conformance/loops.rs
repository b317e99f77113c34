//! Timers, wake-ups, queues between threads, signals.

use std::time::Duration;

use reactor::{Config, Event, Signal, Waker, available_cpus, block_signals, channel, clock, spawn};

use super::{Harness, on_both};

#[test]
fn timers_fire_in_order_and_never_early() {
    on_both(|config| {
        let mut harness = Harness::new(config);
        let start = clock::now();
        let ms = |count: u64| start + count * 1_000_000;
        for (token, at) in [(1, 30), (2, 10), (3, 20), (5, 10)] {
            harness.reactor.set_timer(token, ms(at));
        }
        harness.reactor.set_timer(1, ms(5));
        for (token, at) in [(1, 5), (2, 10), (5, 10), (3, 20)] {
            let fired = harness.wait(|_, event| match event {
                Event::Timer { token } => Some(*token),
                _ => None,
            });
            assert_eq!(fired, token);
            assert!(clock::now() >= ms(at), "timer {token} was early");
        }
        let before = clock::now();
        harness.reactor.poll(Some(Duration::from_millis(20)), &mut harness.events).unwrap();
        assert!(clock::now() - before >= 19_000_000, "an idle poll sleeps for its timeout");
        assert!(harness.events.is_empty());
    });
}

#[test]
fn queues_wake_a_sleeping_reactor_and_lose_nothing() {
    on_both(|config| {
        for spin in [Duration::ZERO, Duration::from_micros(50)] {
            const COUNT: u64 = 20_000;
            let waker = Waker::new().unwrap();
            let own = Waker::new().unwrap();
            let (mut sender, mut receiver) = channel::<u64>(64, own.clone(), waker.clone());
            let theirs = Config { waker: Some(waker), spin, ..config.clone() };
            let thread = spawn("receiver", available_cpus().unwrap().first().copied(), move || {
                let mut harness = Harness::new(theirs);
                let mut next = 0;
                while next < COUNT {
                    harness.wait(|_, event| matches!(event, Event::Woken).then_some(()));
                    while let Some(value) = receiver.receive() {
                        assert_eq!(value, next);
                        next += 1;
                    }
                }
            })
            .unwrap();
            let mut harness = Harness::new(Config { waker: Some(own), ..config.clone() });
            for value in 0..COUNT {
                // Let the receiver fall asleep now and then.
                if value % 4_000 == 0 {
                    std::thread::sleep(Duration::from_millis(2));
                }
                sender.send(value);
                sender.flush();
                while sender.is_behind() {
                    // There is room again when this reactor is woken.
                    harness.wait(|_, event| matches!(event, Event::Woken).then_some(()));
                    sender.flush();
                }
            }
            thread.join().unwrap();
        }
    });
}

#[test]
fn a_wake_before_the_poll_is_not_lost() {
    on_both(|config| {
        let mut harness = Harness::new(config);
        let waker = harness.reactor.waker();
        waker.wake();
        waker.wake();
        harness.reactor.poll(None, &mut harness.events).unwrap();
        assert!(matches!(harness.events[..], [Event::Woken]), "{:?}", harness.events);
    });
}

#[test]
fn a_signal_is_an_event() {
    on_both(|config| {
        // In a thread of its own, to which the signal is sent: the others must not see it blocked.
        spawn("signals", None, move || {
            block_signals().unwrap();
            let mut harness = Harness::new(Config { signals: true, ..config });
            // SAFETY: this thread exists, and the signal is blocked.
            #[allow(unsafe_code, reason = "nothing safe signals one thread")]
            let result = unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGTERM) };
            assert_eq!(result, 0);
            let signal = harness.wait(|_, event| match event {
                Event::Signal(signal) => Some(*signal),
                _ => None,
            });
            assert_eq!(signal, Signal::Terminate);
        })
        .unwrap()
        .join()
        .unwrap();
    });
}
