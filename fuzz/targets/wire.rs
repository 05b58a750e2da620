//! Any bytes on the pipe between the engine and a worker: messages, or an error. A message that
//! was understood reads back as what is sent for it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stage_worker::wire::{Reply, Request, receive, send};

fuzz_target!(|bytes: &[u8]| {
    let mut input = bytes;
    while let Ok(Some(message)) = receive::<Request>(&mut input) {
        let mut sent = Vec::new();
        send(&mut sent, &message).unwrap();
        let again = receive::<Request>(&mut sent.as_slice()).unwrap();
        assert_eq!(format!("{again:?}"), format!("{:?}", Some(message)));
    }
    let _ = receive::<Reply>(&mut &*bytes);
});
