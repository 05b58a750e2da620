//! Remotes on servers: emulators of S3 (moto) and of Azure (Azurite) where they can be installed, moto
//! behind the headers of Google Cloud Storage, and servers that lie.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cache::fs::RealFs;
use cache::{Access, Cache, Digest, Table};
use camino::Utf8Path;
use futures_util::{StreamExt, TryStreamExt};
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::{ObjectStore, ObjectStoreExt};
use remote::{Fresh, Push, Remote, Rules, Settings};

use super::emulators::{Emulator, Web};

const ITEMS: Table = Table(1);
const OUTCOMES: Table = Table(3);
const RULES: Rules = Rules {
    prefers: |_, _, _| false,
    takes: |table| table.0 == ITEMS.0,
    meaning: |_, _| None,
    is_scoped: |_| true,
};

struct Machine {
    _folder: tempfile::TempDir,
    cache: Cache,
    remote: Remote,
}

fn machine(url: &str) -> Machine {
    let folder = tempfile::tempdir().unwrap();
    let path = Utf8Path::from_path(folder.path()).unwrap().join("cache");
    let cache = Cache::open(&path, Arc::new(RealFs), Access::ReadWrite).unwrap();
    let settings = Settings { timeout: Duration::from_secs(5), ..Settings::default() };
    let remote = Remote::open(url.parse().unwrap(), settings, RULES, cache.clone()).unwrap();
    Machine { _folder: folder, cache, remote }
}

fn key() -> Digest {
    Digest::of(b"stage")
}

/// Small objects and a large one.
fn contents() -> Vec<Bytes> {
    let small = (0..200u32).map(|number| vec![number as u8; 500 + number as usize]);
    small.chain([vec![7; 20 << 20]]).map(Bytes::from).collect()
}

/// Makes and pushes everything, with this summary of the outcome.
fn push(machine: &Machine, summary: &[u8]) -> remote::PushCounts {
    let objects: Vec<(Digest, u64)> = contents()
        .iter()
        .map(|bytes| (machine.cache.put(bytes).unwrap(), bytes.len() as u64))
        .collect();
    machine.cache.record(ITEMS, &key(), b"item".to_vec()).unwrap();
    machine.cache.commit().unwrap();
    machine.remote.scope(&Digest::of(b"scope")).unwrap();
    let outcome = Fresh {
        key: key(),
        name: "stage".into(),
        table: OUTCOMES,
        value: Bytes::from_static(b"outcome"),
        summary: Digest::of(summary),
        objects: objects.iter().map(|(digest, _)| *digest).collect(),
    };
    let records = vec![(ITEMS, key(), Bytes::from_static(b"item"))];
    let (outcomes, logs) =
        (vec![outcome], vec![("log-1.jsonl".into(), Bytes::from_static(b"{}\n"))]);
    machine.remote.push(Push { objects, records, outcomes, logs, progress: &|_, _| {} }).unwrap()
}

fn assert_reads_everything(machine: &Machine) {
    assert_eq!(machine.remote.outcome(&key()).unwrap().unwrap(), "outcome");
    for bytes in contents() {
        let digest = Digest::of(&bytes);
        assert!(machine.remote.bring(&digest).unwrap(), "{:?}", machine.remote.take_notes());
        assert_eq!(machine.cache.read(&digest).unwrap(), bytes);
    }
    assert_eq!(machine.cache.get(ITEMS, &key()).unwrap().unwrap(), "item");
    assert_eq!(machine.remote.take_notes(), Vec::<String>::new());
}

/// Runs an ignored test in a process of its own, since credentials are read from the environment.
fn run_with_environment(test: &str, variables: &[(&str, String)]) {
    let inner = Command::new(std::env::current_exe().unwrap())
        .args([&format!("cloud::{test}"), "--exact", "--ignored", "--nocapture"])
        .envs(variables.iter().cloned())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&[inner.stdout, inner.stderr].concat()).into_owned();
    assert!(inner.status.success(), "{told}");
    assert!(told.contains("1 passed"), "{told}");
    assert!(!told.contains("hunter2"), "{told}");
}

#[test]
fn machines_share_results_through_an_s3_server() {
    let Some(moto) = Emulator::moto() else { return };
    run_with_environment("inner_s3", &moto.s3_variables());
}

#[test]
#[ignore = "a part of `machines_share_results_through_an_s3_server`"]
fn inner_s3() {
    assert_shared("s3://team/voice");
    assert_lies_are_found("s3://team/lies");
    // Without a bucket, there is a message without credentials.
    let absent = machine("s3://no-such-bucket/voice");
    assert_eq!(absent.remote.outcome(&key()).unwrap(), None);
    println!("{:?}", absent.remote.take_notes());
}

#[test]
fn machines_share_results_through_azure_blob_storage() {
    let Some(azurite) = Emulator::azurite() else { return };
    run_with_environment("inner_azure", &azurite.azure_variables());
}

#[test]
#[ignore = "a part of `machines_share_results_through_azure_blob_storage`"]
fn inner_azure() {
    assert_shared("az://team/voice");
    assert_lies_are_found("az://team/lies");
}

#[test]
fn machines_share_results_through_google_cloud_storage() {
    let Some(moto) = Emulator::moto() else { return };
    let account = format!(
        r#"{{"private_key": "hunter2-hunter2", "private_key_id": "", "client_email": "",
            "disable_oauth": true, "gcs_base_url": "http://127.0.0.1:{}"}}"#,
        google(moto.port)
    );
    run_with_environment("inner_google", &[("GOOGLE_SERVICE_ACCOUNT_KEY", account)]);
}

#[test]
#[ignore = "a part of `machines_share_results_through_google_cloud_storage`"]
fn inner_google() {
    assert_shared("gs://team/voice");
    assert_lies_are_found("gs://team/lies");
}

/// A server in front of an S3 server, which speaks the XML interface of Google Cloud Storage. That is
/// the one of S3 with other headers for conditions and versions. The emulators in registries have
/// neither conditions nor listings in this interface.
fn google(s3: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let Ok(client) = client else { return };
            // The client may hang up in the middle.
            std::thread::spawn(move || forward(client, s3));
        }
    });
    port
}

/// Moto does not compare signatures.
const SIGNED: &str = "Authorization: AWS4-HMAC-SHA256 \
    Credential=me/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=none";

fn forward(mut client: TcpStream, s3: u16) -> std::io::Result<()> {
    let mut reader = BufReader::new(client.try_clone()?);
    let mut head = String::new();
    while reader.read_line(&mut head)? > 0 && !head.ends_with("\r\n\r\n") {}
    let mut body = Vec::new();
    let mut lines = Vec::new();
    for line in head.trim_end().split("\r\n") {
        let (name, value) = line.split_once(": ").unwrap_or((line, ""));
        match name.to_ascii_lowercase().as_str() {
            "x-goog-if-generation-match" => {
                assert_eq!(value, "0");
                lines.push("If-None-Match: *".to_owned());
            }
            "authorization" | "connection" => {}
            "content-length" => {
                body = vec![0; value.parse().unwrap()];
                lines.push(line.to_owned());
            }
            _ => lines.push(line.to_owned()),
        }
    }
    reader.read_exact(&mut body)?;
    let mut server = TcpStream::connect(("127.0.0.1", s3))?;
    write!(server, "{}\r\n{SIGNED}\r\nConnection: close\r\n\r\n", lines.join("\r\n"))?;
    server.write_all(&body)?;
    let mut answer = Vec::new();
    server.read_to_end(&mut answer)?;
    let status = answer.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    client.write_all(&answer[..status])?;
    client.write_all(b"x-goog-generation: 1\r\n")?;
    client.write_all(&answer[status..])
}

/// A second machine has the results of the first, and the first outcome stays.
fn assert_shared(url: &str) {
    let one = machine(url);
    let pushed = push(&one, b"one");
    assert_eq!((pushed.objects, pushed.outcomes, pushed.logs), (201, 1, 1));
    assert!(push(&one, b"one").is_nothing());
    assert_reads_everything(&machine(url));
    let other = machine(url);
    let conflict = push(&other, b"two");
    assert_eq!((conflict.outcomes, conflict.conflicts), (0, vec!["stage".to_owned()]));
    let third = machine(url);
    assert!(third.remote.scope(&Digest::of(b"scope")).unwrap());
    assert_eq!(third.cache.get(ITEMS, &key()).unwrap().unwrap(), "item");
    let verified = third.remote.verify(&|_, _| {}).unwrap();
    assert_eq!(verified.wrong, []);
    assert!(third.remote.garbage(None).unwrap().unused.is_empty());
}

/// The bucket `team`, without the checks of a remote.
fn bucket(url: &str) -> Box<dyn ObjectStore> {
    match url.split_once(':').unwrap().0 {
        "s3" => {
            let builder = AmazonS3Builder::from_env().with_bucket_name("team");
            Box::new(builder.build().unwrap())
        }
        "az" => {
            let builder = MicrosoftAzureBuilder::from_env().with_container_name("team");
            Box::new(builder.build().unwrap())
        }
        _ => {
            let builder = GoogleCloudStorageBuilder::from_env().with_bucket_name("team");
            Box::new(builder.build().unwrap())
        }
    }
}

/// Flips a bit in the middle of the large object and of the pack; returns the names of both.
fn damage(url: &str) -> [String; 2] {
    let folder = url.rsplit('/').next().unwrap();
    let store = bucket(url);
    let work = async {
        let listed = store.list(Some(&folder.into())).map(|listed| listed.map(|it| it.location));
        let mut names: Vec<_> = listed.try_collect().await.unwrap();
        names
            .retain(|name| name.as_ref().contains("/objects/") || name.as_ref().ends_with(".pack"));
        for name in &names {
            let mut bytes = store.get(name).await.unwrap().bytes().await.unwrap().to_vec();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            store.put(name, bytes.into()).await.unwrap();
        }
        names.sort();
        let names = names.iter().map(|name| name.as_ref().replacen(&format!("{folder}/"), "", 1));
        names.collect::<Vec<String>>().try_into().unwrap()
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(work)
}

/// The server has other bytes than those that were written: they are named, and not used.
fn assert_lies_are_found(url: &str) {
    push(&machine(url), b"one");
    let names = damage(url);
    let reader = machine(url);
    assert_eq!(reader.remote.outcome(&key()).unwrap().unwrap(), "outcome");
    let mut lost = 0;
    for bytes in contents() {
        let digest = Digest::of(&bytes);
        if reader.remote.bring(&digest).unwrap() {
            assert_eq!(reader.cache.read(&digest).unwrap(), bytes)
        } else {
            lost += 1;
            assert!(!reader.cache.contains(&digest).unwrap());
        }
    }
    assert_eq!(lost, 2, "the large object and one of the pack");
    let notes = reader.remote.take_notes();
    assert!(names.iter().all(|name| notes.iter().any(|note| note.contains(name))), "{notes:?}");
    let verified = machine(url).remote.verify(&|_, _| {}).unwrap();
    let mut wrong: Vec<String> = verified.wrong.into_iter().map(|(name, _)| name).collect();
    wrong.sort();
    assert_eq!(wrong, names);
}

/// Answers every request with these bytes, and counts them.
struct Server {
    port: u16,
    requests: Arc<AtomicUsize>,
    heads: Arc<Mutex<String>>,
}

type Answer = dyn Fn(&str, &mut TcpStream) -> std::io::Result<()> + Send + Sync;

fn serve(answer: Box<Answer>) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (requests, heads) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(String::new())));
    let (counted, seen) = (Arc::clone(&requests), Arc::clone(&heads));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut head = String::new();
            while let Ok(1..) = reader.read_line(&mut head) {
                if head.ends_with("\r\n\r\n") {
                    break;
                }
            }
            counted.fetch_add(1, Ordering::SeqCst);
            seen.lock().unwrap().push_str(&head);
            let path = head.split(' ').nth(1).unwrap_or("").to_owned();
            // The client may hang up in the middle.
            let _ = answer(&path, &mut stream);
        }
    });
    Server { port, requests, heads }
}

const MARK: &str = "throstle remote 1\n";

fn ok(stream: &mut TcpStream, body: &[u8]) -> std::io::Result<()> {
    let head = "Last-Modified: Mon, 23 Nov 2026 00:00:00 GMT\r\nConnection: close\r\n";
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{head}\r\n", body.len())?;
    stream.write_all(body)
}

fn not_found(stream: &mut TcpStream) -> std::io::Result<()> {
    write!(stream, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
}

#[test]
fn a_plain_web_server_serves_a_copy_of_a_folder_and_is_not_written_to() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().to_owned();
    push(&machine(&format!("file://{}", root.to_str().unwrap())), b"one");
    let server = serve(Box::new(move |path, stream| {
        match std::fs::read(root.join(path.trim_start_matches('/'))) {
            Ok(body) => ok(stream, &body),
            Err(_) => not_found(stream),
        }
    }));
    let url = format!("http://127.0.0.1:{}", server.port);
    assert_reads_everything(&machine(&url));
    let writer = machine(&url);
    writer.cache.put(b"new").unwrap();
    writer.cache.commit().unwrap();
    let objects = vec![(Digest::of(b"new"), 3)];
    let (records, outcomes, logs) = (Vec::new(), Vec::new(), Vec::new());
    let push = Push { objects, records, outcomes, logs, progress: &|_, _| {} };
    let refused = writer.remote.push(push).unwrap_err().to_string();
    assert!(refused.contains("it is read-only"), "{refused}");
}

#[test]
fn a_redirect_to_another_host_is_not_followed() {
    let other = serve(Box::new(|_, stream| ok(stream, MARK.as_bytes())));
    let target = format!("http://127.0.0.1:{}/THROSTLE", other.port);
    let server = serve(Box::new(move |_, stream| {
        let head = "Content-Length: 0\r\nConnection: close\r\n";
        write!(stream, "HTTP/1.1 302 Found\r\nLocation: {target}\r\n{head}\r\n")
    }));
    let machine = machine(&format!("http://127.0.0.1:{}", server.port));
    assert_eq!(machine.remote.outcome(&key()).unwrap(), None);
    let notes = machine.remote.take_notes();
    assert!(notes.len() == 1 && notes[0].contains("cannot be used"), "{notes:?}");
    assert!(server.requests.load(Ordering::SeqCst) >= 1);
    assert_eq!(other.requests.load(Ordering::SeqCst), 0, "{}", other.heads.lock().unwrap());
}

#[test]
fn an_endless_answer_is_a_damaged_file_and_is_not_read() {
    let server = serve(Box::new(|path, stream| {
        if path.ends_with("THROSTLE") {
            return ok(stream, MARK.as_bytes());
        }
        let head = "Last-Modified: Mon, 23 Nov 2026 00:00:00 GMT\r\nConnection: close\r\n";
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 900000000000\r\n{head}\r\n")?;
        loop {
            stream.write_all(&[b'x'; 65536])?;
        }
    }));
    let machine = machine(&format!("http://127.0.0.1:{}", server.port));
    assert_eq!(machine.remote.outcome(&key()).unwrap(), None);
    let notes = machine.remote.take_notes();
    assert!(notes.len() == 1 && notes[0].contains("it is damaged"), "{notes:?}");
}

#[test]
fn a_server_that_answers_anything_with_a_page_is_no_remote() {
    let server = serve(Box::new(|_, stream| ok(stream, b"<html>welcome</html>")));
    let machine = machine(&format!("http://127.0.0.1:{}", server.port));
    assert_eq!(machine.remote.outcome(&key()).unwrap(), None);
    let notes = machine.remote.take_notes();
    assert!(notes.len() == 1 && notes[0].contains("does not mark a remote"), "{notes:?}");
    assert_eq!(server.requests.load(Ordering::SeqCst), 1);
}

#[test]
fn a_server_that_never_answers_costs_one_time_limit() {
    let server = serve(Box::new(|_, _| {
        std::thread::sleep(Duration::from_secs(3_600));
        Ok(())
    }));
    let folder = tempfile::tempdir().unwrap();
    let path = Utf8Path::from_path(folder.path()).unwrap().join("cache");
    let cache = Cache::open(&path, Arc::new(RealFs), Access::ReadWrite).unwrap();
    let settings = Settings { timeout: Duration::from_millis(300), ..Settings::default() };
    let url = format!("http://127.0.0.1:{}", server.port).parse().unwrap();
    let remote = Remote::open(url, settings, RULES, cache).unwrap();
    for number in 0..50u8 {
        assert_eq!(remote.outcome(&Digest::of(&[number])).unwrap(), None);
    }
    assert_eq!((remote.requests(), remote.take_notes().len()), (1, 1));
}

/// The number of bytes of one request for a large object.
const PIECE: u64 = 8 << 20;

/// A web server of a remote, and a machine with its first two pieces of the large object: the third one was
/// cut off.
fn cut_off(folder: &Path) -> (Web, Machine) {
    push(&machine(&format!("file://{}", folder.to_str().unwrap())), b"one");
    let web = Web::start(folder);
    let reader = machine(&web.url());
    web.cut(|name, from| name.starts_with("objects/") && from.is_none_or(|from| from >= 2 * PIECE));
    assert_eq!(reader.remote.outcome(&key()).unwrap().unwrap(), "outcome");
    assert!(!reader.remote.bring(&large()).unwrap());
    let notes = reader.remote.take_notes();
    assert!(notes.len() == 1 && notes[0].contains("cannot be used"), "{notes:?}");
    assert!(web.take_asked().iter().any(|asked| asked.is_cut_off));
    web.cut(|_, _| false);
    (web, reader)
}

fn large() -> Digest {
    Digest::of(contents().last().unwrap())
}

/// The first bytes of the requests for the large object.
fn starts(web: &Web) -> Vec<Option<u64>> {
    let asked = web.take_asked().into_iter().filter(|asked| asked.name.starts_with("objects/"));
    let mut starts: Vec<Option<u64>> = asked.map(|asked| asked.from).collect();
    starts.sort_unstable();
    starts
}

/// The next process on the same machine.
fn next_process(machine: &Machine, url: &str) -> Remote {
    machine.cache.commit().unwrap();
    Remote::open(url.parse().unwrap(), Settings::default(), RULES, machine.cache.clone()).unwrap()
}

#[test]
fn a_large_object_that_was_cut_off_resumes_behind_its_whole_pieces() {
    let folder = tempfile::tempdir().unwrap();
    let (web, reader) = cut_off(folder.path());
    let next = next_process(&reader, &web.url());
    assert!(next.bring(&large()).unwrap(), "{:?}", next.take_notes());
    assert_eq!(starts(&web), [Some(2 * PIECE)]);
    assert_eq!(reader.cache.read(&large()).unwrap(), contents().pop().unwrap());
}

#[test]
fn damaged_bytes_of_a_cut_off_object_are_fetched_again() {
    let folder = tempfile::tempdir().unwrap();
    let (web, reader) = cut_off(folder.path());
    let incoming = reader.cache.dir().join("incoming").join(large().to_string());
    let mut bytes = std::fs::read(&incoming).unwrap();
    assert_eq!(bytes.len() as u64, 2 * PIECE);
    bytes[7] ^= 1;
    std::fs::write(&incoming, bytes).unwrap();
    let next = next_process(&reader, &web.url());
    assert!(next.bring(&large()).unwrap(), "{:?}", next.take_notes());
    assert_eq!(starts(&web), [0, PIECE, 2 * PIECE, 2 * PIECE].map(Some));
    assert_eq!(reader.cache.read(&large()).unwrap(), contents().pop().unwrap());
    assert_eq!(next.take_notes(), Vec::<String>::new());
}
