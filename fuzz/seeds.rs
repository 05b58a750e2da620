//! Writes a few small seeds for each target, so that fuzzing begins beyond the first check.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use cache::fs::MemoryFs;
use cache::{Access, Cache, Table};
use stage_core::device::DeviceId;
use stage_worker::wire::{Reply, Request, send};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let corpus = root.join("corpus");
    manifests(root, &corpus)?;
    write(&corpus.join("table"), "bar", b"a.wav|Hello.|anna\nb.wav|Moin.|ben\n")?;
    write(&corpus.join("table"), "comma", b"file,text\r\n\"a,b.wav\",\"He said \"\"yes\"\".\"\r\n")?;
    write(&corpus.join("table"), "jsonl", b"{\"audio\": \"a.wav\", \"text\": \"Hello.\"}\n")?;
    write(&corpus.join("wav"), "pcm16", &wave(1, 16, &[0, 1, 2, 3, 4, 5, 6, 7]))?;
    write(&corpus.join("wav"), "pcm24", &wave(1, 24, &[0, 1, 2, 3, 4, 5]))?;
    write(&corpus.join("wav"), "float", &wave(3, 32, &1.0_f32.to_le_bytes()))?;
    packs(&corpus)?;
    weights(root, &corpus)?;
    wires(&corpus)
}

fn write(folder: &Path, name: &str, bytes: &[u8]) -> Outcome<()> {
    fs::create_dir_all(folder)?;
    Ok(fs::write(folder.join(name), bytes)?)
}

/// The manifests of the project itself.
fn manifests(root: &Path, corpus: &Path) -> Outcome<()> {
    for entry in fs::read_dir(root.join("../pipelines"))? {
        let entry = entry?;
        if let Ok(text) = fs::read(entry.path().join("pipeline.toml")) {
            let name = entry.file_name().to_string_lossy().into_owned();
            write(&corpus.join("manifest"), &name, &text)?;
        }
    }
    Ok(())
}

fn wave(format: u16, bits: u16, data: &[u8]) -> Vec<u8> {
    let align = bits / 8;
    let mut body = b"WAVEfmt \x10\0\0\0".to_vec();
    body.extend(format.to_le_bytes());
    body.extend(1u16.to_le_bytes());
    body.extend(8_000u32.to_le_bytes());
    body.extend((8_000 * u32::from(align)).to_le_bytes());
    body.extend(align.to_le_bytes());
    body.extend(bits.to_le_bytes());
    body.extend(b"data");
    body.extend((data.len() as u32).to_le_bytes());
    body.extend(data);
    let mut file = b"RIFF".to_vec();
    file.extend((body.len() as u32).to_le_bytes());
    file.extend(body);
    file
}

/// The pack of a cache with a few objects and records.
fn packs(corpus: &Path) -> Outcome<()> {
    let memory = MemoryFs::new();
    let cache = Cache::open("/cache".into(), Arc::new(memory.clone()), Access::ReadWrite)?;
    for text in ["old", "", "a longer object, which is still a small one"] {
        let digest = cache.put(text.as_bytes())?;
        cache.record(Table(1), &digest, text.as_bytes().to_vec())?;
    }
    cache.commit()?;
    for (path, bytes) in memory.files() {
        if path.extension() == Some("pack") {
            write(&corpus.join("pack"), "small", &bytes)?;
        }
    }
    Ok(())
}

/// The files that PyTorch wrote for the tests of the reader.
fn weights(root: &Path, corpus: &Path) -> Outcome<()> {
    for entry in fs::read_dir(root.join("../stages/formats/tests/fixtures/pth"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "pth") {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            write(&corpus.join("pth"), &name, &fs::read(&path)?)?;
        }
    }
    Ok(())
}

fn wires(corpus: &Path) -> Outcome<()> {
    let folder = corpus.join("wire");
    let hello = Request::Hello { protocol: 1, device: DeviceId::Cpu, threads: 2 };
    let open = Request::Open {
        job: 1,
        kind: "vq.encode".into(),
        version: 1,
        setup: stage_core::Setup::default(),
    };
    let mut pipe = Vec::new();
    for message in [hello, open, Request::Close { job: 1 }, Request::Shutdown] {
        send(&mut pipe, &message)?;
    }
    write(&folder, "requests", &pipe)?;
    let mut pipe = Vec::new();
    for message in [Reply::Opened(Ok(())), Reply::Progress { done: 1, total: 2 }, Reply::Goodbye] {
        send(&mut pipe, &message)?;
    }
    write(&folder, "replies", &pipe)
}
