//! Buckets and web servers as places. The asynchronous client lives in one thread, which starts with
//! the first request; nothing else sees it.
//!
//! Credentials come from the standard environment variables of each service. Redirects are not
//! followed, so that a request, and what proves its right, never reaches another host.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use cache::fs::{Fs, Open, RealFs};
use camino::Utf8Path;
use futures_util::StreamExt;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::client::{HttpClient, HttpConnector};
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::path::Path;
use object_store::{
    BackoffConfig, ClientConfigKey, ClientOptions, Error, GetOptions, GetRange, ObjectStore,
    ObjectStoreExt, PutMode, PutPayload, RetryConfig, WriteMultipart,
};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::address::Address;
use crate::storage::{ListedFile, Refusal, Storage};

/// The size of the parts of an upload, and the number of them that are under way.
const PART: usize = 8 << 20;
const PARTS_AT_ONCE: usize = 4;
const RETRIES: usize = 4;

#[derive(Debug)]
pub struct Cloud {
    address: Address,
    timeout: Duration,
    client: OnceLock<Result<Client, Refusal>>,
}

/// The client, and the thread that it works in.
#[derive(Debug)]
struct Client {
    store: Arc<dyn ObjectStore>,
    /// Before every name.
    base: Path,
    jobs: Mutex<UnboundedSender<Job>>,
}

type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Cloud {
    pub fn new(address: Address, timeout: Duration) -> Cloud {
        Cloud { address, timeout, client: OnceLock::new() }
    }

    fn client(&self) -> Result<&Client, Refusal> {
        let client = self.client.get_or_init(|| Client::start(&self.address, self.timeout));
        client.as_ref().map_err(Clone::clone)
    }

    /// True for a server of files that can only be read.
    fn is_web(&self) -> bool {
        self.address.scheme().starts_with("http")
    }

    /// All bytes or a range of them, but at most this many, as [`Storage::get`] and [`Storage::part`].
    fn read(
        &self,
        name: &str,
        range: Option<(u64, u64)>,
        most: u64,
    ) -> Result<Option<Bytes>, Refusal> {
        let client = self.client()?;
        let path = client.path(name)?;
        let store = Arc::clone(&client.store);
        let (shown, is_part) = (name.to_owned(), range.is_some());
        client.run(async move {
            let range = range.map(|(offset, length)| GetRange::Bounded(offset..offset + length));
            let options = GetOptions { range, ..GetOptions::default() };
            let found = match store.get_opts(&path, options).await {
                Err(Error::NotFound { .. }) => return Ok(None),
                other => other.map_err(refusal)?,
            };
            let too_long = || {
                if is_part {
                    Err(Refusal(format!("`{shown}` is larger than the limit of {most} bytes")))
                } else {
                    Ok(Some(Bytes::new()))
                }
            };
            let expected = found.range.end.saturating_sub(found.range.start);
            if expected > most {
                return too_long();
            }
            let mut bytes = Vec::with_capacity(usize::try_from(expected).unwrap_or(0));
            let mut stream = found.into_stream();
            while let Some(chunk) = stream.next().await {
                let chunk = chunk.map_err(refusal)?;
                if (bytes.len() + chunk.len()) as u64 > most {
                    return too_long();
                }
                bytes.extend_from_slice(&chunk);
            }
            Ok(Some(Bytes::from(bytes)))
        })
    }
}

impl Storage for Cloud {
    fn get(&self, name: &str, most: u64) -> Result<Option<Bytes>, Refusal> {
        self.read(name, None, most)
    }

    fn part(&self, name: &str, offset: u64, length: u64) -> Result<Option<Bytes>, Refusal> {
        let part = self.read(name, Some((offset, length)), length);
        match part {
            // A simple web server knows no ranges.
            Err(_) if self.is_web() && offset + length <= (1 << 30) => {
                let whole = self.read(name, None, 1 << 30)?;
                let cut = |whole: Bytes| {
                    let start = (offset as usize).min(whole.len());
                    let end = ((offset + length) as usize).min(whole.len());
                    whole.slice(start..end)
                };
                Ok(whole.map(cut))
            }
            part => part,
        }
    }

    fn put(&self, name: &str, bytes: Bytes) -> Result<bool, Refusal> {
        let client = self.client()?;
        let path = client.path(name)?;
        let store = Arc::clone(&client.store);
        client.run(async move {
            let payload = PutPayload::from_bytes(bytes);
            match store.put_opts(&path, payload, PutMode::Create.into()).await {
                Ok(_) => Ok(true),
                Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(false),
                Err(error) => Err(refusal(error)),
            }
        })
    }

    fn replace(&self, name: &str, bytes: Bytes) -> Result<(), Refusal> {
        let client = self.client()?;
        let path = client.path(name)?;
        let store = Arc::clone(&client.store);
        client.run(async move {
            let payload = PutPayload::from_bytes(bytes);
            store.put(&path, payload).await.map(drop).map_err(refusal)
        })
    }

    fn put_file(&self, name: &str, file: &Utf8Path) -> Result<(), Refusal> {
        let client = self.client()?;
        let path = client.path(name)?;
        let store = Arc::clone(&client.store);
        let source = RealFs.open(file, Open::Read)?;
        client.run(async move {
            let upload = store.put_multipart(&path).await.map_err(refusal)?;
            let mut upload = WriteMultipart::new_with_chunk_size(upload, PART);
            let (mut buffer, mut offset) = (vec![0; PART], 0);
            loop {
                let count = match source.read_full_at(&mut buffer, offset) {
                    Ok(count) => count,
                    Err(error) => {
                        let _ = upload.abort().await;
                        return Err(error.into());
                    }
                };
                if count == 0 {
                    break;
                }
                upload.wait_for_capacity(PARTS_AT_ONCE).await.map_err(refusal)?;
                upload.write(&buffer[..count]);
                offset += count as u64;
            }
            upload.finish().await.map(drop).map_err(refusal)
        })
    }

    fn size(&self, name: &str) -> Result<Option<u64>, Refusal> {
        let client = self.client()?;
        let path = client.path(name)?;
        let store = Arc::clone(&client.store);
        client.run(async move {
            match store.head(&path).await {
                Ok(found) => Ok(Some(found.size)),
                Err(Error::NotFound { .. }) => Ok(None),
                Err(error) => Err(refusal(error)),
            }
        })
    }

    fn list(&self, folder: &str) -> Result<Vec<ListedFile>, Refusal> {
        let client = self.client()?;
        let path = client.path(folder)?;
        let (store, base) = (Arc::clone(&client.store), client.base.clone());
        client.run(async move {
            let mut found = Vec::new();
            let mut stream = store.list(Some(&path));
            while let Some(listed) = stream.next().await {
                let listed = listed.map_err(refusal)?;
                let Some(parts) = listed.location.prefix_match(&base) else { continue };
                let name: Vec<String> = parts.map(|part| part.as_ref().to_owned()).collect();
                let modified = listed.last_modified.timestamp();
                found.push(ListedFile { name: name.join("/"), size: listed.size, modified });
            }
            Ok(found)
        })
    }

    fn remove(&self, name: &str) -> Result<(), Refusal> {
        let client = self.client()?;
        let path = client.path(name)?;
        let store = Arc::clone(&client.store);
        client.run(async move {
            match store.delete(&path).await {
                Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
                Err(error) => Err(refusal(error)),
            }
        })
    }

    fn is_writable(&self) -> bool {
        !self.is_web()
    }

    fn can_list(&self) -> bool {
        !self.is_web()
    }
}

impl Client {
    fn start(address: &Address, timeout: Duration) -> Result<Client, Refusal> {
        let failed = |error: std::io::Error| Refusal(format!("cannot start a thread: {error}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(failed)?;
        let (jobs, mut waiting) = unbounded_channel::<Job>();
        let work = move || {
            runtime.block_on(async move {
                while let Some(job) = waiting.recv().await {
                    tokio::spawn(job);
                }
            });
        };
        std::thread::Builder::new().name("remote-store".into()).spawn(work).map_err(failed)?;
        let (store, base) = store(address, timeout).map_err(refusal)?;
        Ok(Client { store, base, jobs: Mutex::new(jobs) })
    }

    fn path(&self, name: &str) -> Result<Path, Refusal> {
        let whole = match self.base.as_ref() {
            "" => name.to_owned(),
            base if name.is_empty() => base.to_owned(),
            base => format!("{base}/{name}"),
        };
        Path::parse(whole).map_err(|error| Refusal(error.to_string()))
    }

    /// Waits for the end of an operation in the thread of the store.
    fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Refusal>> + Send + 'static,
    ) -> Result<T, Refusal> {
        let (sender, receiver) = std::sync::mpsc::channel();
        let job = Box::pin(async move { drop(sender.send(work.await)) });
        let broken = || Refusal("the thread of the store has ended".to_owned());
        let sent = self.jobs.lock().unwrap_or_else(PoisonError::into_inner).send(job);
        sent.map_err(|_| broken())?;
        receiver.recv().unwrap_or_else(|_| Err(broken()))
    }
}

fn store(
    address: &Address,
    timeout: Duration,
) -> object_store::Result<(Arc<dyn ObjectStore>, Path)> {
    let (_, rest) = address.as_str().split_once("://").unwrap_or_default();
    let (bucket, base) = rest.split_once('/').unwrap_or((rest, ""));
    let base = Path::parse(base)?;
    let connector = Connector { timeout };
    let backoff = BackoffConfig::default();
    let retry = RetryConfig { backoff, max_retries: RETRIES, retry_timeout: timeout };
    Ok(match address.scheme() {
        "s3" => {
            let builder = AmazonS3Builder::from_env().with_bucket_name(bucket);
            let builder = builder.with_http_connector(connector).with_retry(retry);
            (Arc::new(builder.build()?), base)
        }
        "az" => {
            let builder = MicrosoftAzureBuilder::from_env().with_container_name(bucket);
            let builder = builder.with_http_connector(connector).with_retry(retry);
            (Arc::new(builder.build()?), base)
        }
        "gs" => {
            let builder = GoogleCloudStorageBuilder::from_env().with_bucket_name(bucket);
            let builder = builder.with_http_connector(connector).with_retry(retry);
            (Arc::new(builder.build()?), base)
        }
        _ => {
            let options = ClientOptions::new().with_allow_http(address.scheme() == "http");
            let builder = HttpBuilder::new().with_url(address.as_str());
            let builder = builder.with_client_options(options);
            let builder = builder.with_http_connector(connector).with_retry(retry);
            (Arc::new(builder.build()?), Path::default())
        }
    })
}

/// Makes clients that follow no redirect.
#[derive(Debug)]
struct Connector {
    timeout: Duration,
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        // It fails only where another part of the program has chosen already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let may_be_plain = options.get_config_value(&ClientConfigKey::AllowHttp);
        let mut builder = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(self.timeout)
            .read_timeout(self.timeout)
            .https_only(may_be_plain.as_deref() != Some("true"))
            .user_agent(concat!("throstle/", env!("CARGO_PKG_VERSION")));
        if let Some(headers) = options.get_default_headers() {
            builder = builder.default_headers(headers.clone());
        }
        let client = builder.build();
        let generic = |error| Error::Generic { store: "HTTP client", source: Box::new(error) };
        Ok(HttpClient::new(client.map_err(generic)?))
    }
}

/// The variables with secrets; their values are never shown.
const SECRETS: [&str; 8] = [
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_ACCESS_KEY_ID",
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_SAS_TOKEN",
    "AZURE_STORAGE_TOKEN",
    "AZURE_CLIENT_SECRET",
    "GOOGLE_SERVICE_ACCOUNT_KEY",
];
/// The longest message of a service that is shown.
const LONGEST: usize = 400;

fn refusal(error: Error) -> Refusal {
    let mut told = without_queries(&error.to_string());
    for secret in SECRETS.iter().filter_map(|name| std::env::var(name).ok()) {
        if !secret.is_empty() {
            told = told.replace(&secret, "***");
        }
    }
    let told: String = told.split_whitespace().collect::<Vec<_>>().join(" ");
    Refusal(told.chars().take(LONGEST).collect())
}

/// A signature is in the query of a URL.
fn without_queries(text: &str) -> String {
    let ends = |letter: char| letter.is_whitespace() || ")\"'>,".contains(letter);
    let mut kept = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('?') {
        kept.push_str(&rest[..at]);
        let query = &rest[at + 1..];
        rest = &query[query.find(ends).unwrap_or(query.len())..];
    }
    kept + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_of_urls_are_not_shown() {
        let told = without_queries("GET (https://a.b/c?sig=secret&x=1) failed: 'https://d/e?f'");
        assert_eq!(told, "GET (https://a.b/c) failed: 'https://d/e'");
    }
}
