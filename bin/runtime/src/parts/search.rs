//! The search services that settings name, for the tools `websearch` and `codesearch`.

use leftfold_config::{Search, SearchProvider, Secret, Settings};
use leftfold_tools::{SEARCH_TOOLS, SearchService, SearchVendor, Workspace};

/// The service of the tool `name`. `None`: settings name none. The error says why it cannot be used.
pub fn service(settings: &Settings, name: &str) -> Option<Result<SearchService, String>> {
    let said = match name {
        "websearch" => settings.websearch.as_ref()?,
        _ => settings.codesearch.as_ref()?,
    };
    let unset: Vec<String> = Search::unset(said).map(|error| error.to_string()).collect();
    if !unset.is_empty() {
        return Some(Err(unset.join("; ")));
    }
    let vendor = match said.provider {
        SearchProvider::Searxng => SearchVendor::Searxng,
        SearchProvider::Brave => SearchVendor::Brave,
        SearchProvider::Tavily => SearchVendor::Tavily,
        SearchProvider::Exa => SearchVendor::Exa,
    };
    let key = said.api_key().map(Secret::reveal);
    let results = said.results.map(u64::from);
    let service = SearchService::new(vendor, said.url(), key, results);
    Some(service.map_err(|why| format!("{}: `{name}`: {why}", said.key_place())))
}

/// The tools that search, and for which settings name no usable service.
pub fn missing(settings: &Settings) -> Vec<&'static str> {
    let is_missing = |name: &&str| !matches!(service(settings, name), Some(Ok(_)));
    SEARCH_TOOLS.into_iter().filter(is_missing).collect()
}

/// Gives the tools of `workspace` their services.
pub fn set_up(workspace: &mut Workspace, settings: &Settings) {
    let [web, code] = SEARCH_TOOLS.map(|name| service(settings, name)?.ok());
    workspace.websearch = web;
    workspace.codesearch = code;
}
