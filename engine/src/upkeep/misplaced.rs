//! Folders that cannot be remotes: those that the pipeline itself reads or writes.

use cache::fs::RealFs;
use camino::{Utf8Path, Utf8PathBuf};
use remote::Address;

use crate::export::{fixed_folder, real};
use crate::pipeline::Pipeline;

/// The reason why an address cannot be the remote of a pipeline with its cache in this folder.
pub fn misplaced(pipeline: &Pipeline, cache: &Utf8Path, address: &Address) -> Option<String> {
    let remote = resolved(&address.folder()?);
    let meets = |folder: &Utf8Path| remote.starts_with(folder) || folder.starts_with(&remote);
    if let Some(why) = meets_cache(cache, address) {
        return Some(why);
    }
    for spec in &pipeline.stages {
        for export in &spec.exports {
            let folder = resolved(&pipeline.base.join(fixed_folder(&export.template)));
            // Exports beside the manifest share its folder with everything else.
            if remote == folder || (meets(&folder) && folder != resolved(&pipeline.base)) {
                let name = &spec.name;
                return Some(format!(
                    "it contains the folder `{folder}` with exports of `{name}`, or is inside it"
                ));
            }
        }
    }
    let read = pipeline.paths().into_iter().map(|path| resolved(&path));
    let data = read.into_iter().find(|path| remote.starts_with(path));
    data.map(|path| format!("it is inside the data `{path}`"))
}

/// The reason why an address cannot be the remote of a cache in this folder.
pub fn meets_cache(cache: &Utf8Path, address: &Address) -> Option<String> {
    let (remote, cache) = (resolved(&address.folder()?), resolved(cache));
    (remote.starts_with(&cache) || cache.starts_with(&remote))
        .then(|| format!("it contains the cache `{cache}`, or is inside it"))
}

/// The data of a pipeline in the folder of its cache, or the other way round.
pub fn data_in_cache(pipeline: &Pipeline, cache: &Utf8Path) -> Option<Utf8PathBuf> {
    let cache = resolved(cache);
    let mut paths = pipeline.paths().into_iter().map(|path| resolved(&path));
    paths.find(|path| path.starts_with(&cache))
}

fn resolved(path: &Utf8Path) -> Utf8PathBuf {
    let whole =
        std::path::absolute(path).ok().and_then(|path| Utf8PathBuf::from_path_buf(path).ok());
    let whole = whole.unwrap_or_else(|| path.to_owned());
    real(&RealFs, &whole).unwrap_or(whole)
}
