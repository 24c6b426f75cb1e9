//! Lists the models of a provider with their effective limits, prices, capabilities and variants.

use std::fmt;

use leftfold_config::{
    self as settings, KeySource, KeyState, ListedModel, Model, ProviderSummary, Settings,
};
use leftfold_events::turn_config::{Limit, Prices};
use leftfold_providers::catalog::{self, Thinking};
use leftfold_providers::{AccountModel, Wire, catalog::Model as Listed};

use crate::{account_models, model};

/// One model with its effective values.
#[derive(Debug)]
pub struct Row {
    pub name: String,
    pub family: String,
    pub limit: Limit,
    pub cost: Prices,
    pub tools: bool,
    pub images: bool,
    pub reasoning: bool,
    pub temperature: bool,
    pub variants: Vec<String>,
    pub origin: Origin,
    pub default: bool,
}

/// Where a model is listed.
#[derive(Clone, Debug)]
pub enum Origin {
    BuiltIn,
    Settings(settings::SettingPlace),
    /// The list of the account that has signed in.
    Account,
    /// The list of models.dev.
    ModelsDev,
}

/// For people.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("built-in"),
            Self::Settings(place) => place.fmt(f),
            Self::Account => f.write_str("account"),
            Self::ModelsDev => f.write_str("models.dev"),
        }
    }
}

impl Row {
    /// The context window and the longest answer, in tokens.
    pub fn limits(&self) -> String {
        let Limit { context, output, .. } = self.limit;
        let context = if context == 0 { "?".to_owned() } else { tokens(context) };
        format!("{context} / {}", tokens(output))
    }

    /// The prices of input and output for a million tokens.
    pub fn price(&self) -> String {
        let Prices { input, output, .. } = self.cost;
        if input == 0.0 && output == 0.0 {
            return "-".to_owned();
        }
        format!("${input} / ${output}")
    }
}

fn tokens(count: u64) -> String {
    match count {
        0..1_000 => count.to_string(),
        1_000..1_000_000 => format!("{}k", count / 1_000),
        _ if count % 1_000_000 < 10_000 => format!("{}M", count / 1_000_000),
        _ => format!("{}.{:02}M", count / 1_000_000, count % 1_000_000 / 10_000),
    }
}

/// The models of the providers that have a key, or need none.
pub fn usable(settings: &Settings) -> Vec<(String, Vec<Row>)> {
    let default = settings.default_name(&model::environment);
    let providers = settings
        .provider_summaries(&model::environment)
        .into_iter()
        .filter(ProviderSummary::is_usable);
    let rows = providers.map(|summary| {
        let rows = rows(settings, &summary, default.as_deref());
        (summary.name, rows)
    });
    rows.filter(|(_, rows)| !rows.is_empty()).collect()
}

/// The models of a provider: those in settings, then the built-in list, or that of models.dev if there is none, then those
/// of the account that has signed in, then the default if it is in none.
pub fn rows(settings: &Settings, summary: &ProviderSummary, default: Option<&str>) -> Vec<Row> {
    let Some(wire) = summary.wire.and_then(|wire| wire.name().parse::<Wire>().ok()) else {
        return Vec::new();
    };
    let vendor =
        model::vendor(wire, &summary.name, summary.vendor.as_deref(), summary.base_url.as_ref());
    let row = |id: &str, own: &Model| {
        let called = own.id.as_deref().unwrap_or(id);
        let name = format!("{}/{id}", summary.name);
        let default = default == Some(name.as_str());
        let listed = model::listed(settings, &summary.name, called, wire, vendor);
        row(name, wire, vendor, called, (own, listed), default)
    };
    let mut rows: Vec<Row> = summary
        .models
        .iter()
        .filter(|(id, _)| settings.is_shown(&summary.name, id))
        .map(|(id, own)| Row { origin: Origin::Settings(own.key_place().clone()), ..row(id, own) })
        .collect();
    let named = |rows: &[Row], id: &str| {
        rows.iter().any(|row| row.name == format!("{}/{id}", summary.name))
    };
    // Models listed in settings are the complete list, and an unknown server may have any models.
    let has_catalog = summary.open && vendor != "generic" && !summary.listed;
    if summary.builtin || has_catalog {
        for listed in catalog::models(wire, vendor) {
            if !named(&rows, listed.id) && settings.is_shown(&summary.name, listed.id) {
                rows.push(row(listed.id, &Model::default()));
            }
        }
    }
    // a server of the user's own has the models that it has
    let has_list = !summary.builtin || catalog::models(wire, vendor).is_empty();
    if has_list && !(summary.builtin && summary.key_variables.is_empty()) {
        for (id, of_model, listed) in settings.listed_models(&summary.name) {
            let of_model = of_model.and_then(|wire| wire.name().parse::<Wire>().ok());
            let is_callable = listed.abilities.tools != Some(false);
            if is_callable && !named(&rows, id) && settings.is_shown(&summary.name, id) {
                let name = format!("{}/{id}", summary.name);
                let is_default = default == Some(name.as_str());
                let facts = (&Model::default(), Some(listed));
                let row = self::row(name, of_model.unwrap_or(wire), vendor, id, facts, is_default);
                rows.push(Row { origin: Origin::ModelsDev, ..row });
            }
        }
    }
    if let KeyState::From(KeySource::SignIn(_)) = summary.key {
        for listed in account_models::for_provider(&summary.name) {
            if !named(&rows, &listed.id) && settings.is_shown(&summary.name, &listed.id) {
                let AccountModel { id, limit, tools, images } = listed;
                let origin = Origin::Account;
                rows.push(Row { limit, tools, images, origin, ..row(&id, &Model::default()) });
            }
        }
    }
    let unlisted = default.and_then(|name| name.strip_prefix(&format!("{}/", summary.name)));
    if let Some(id) = unlisted.filter(|id| summary.open && !named(&rows, id)) {
        rows.push(row(id, &Model::default()));
    }
    rows
}

fn row(
    name: String,
    wire: Wire,
    vendor: &str,
    called: &str,
    (own, of_list): (&Model, Option<&ListedModel>),
    default: bool,
) -> Row {
    let listed = catalog::model(wire, vendor, called);
    let mut known = catalog::describe(wire, vendor, called);
    let mut abilities = own.abilities();
    let of_model = (abilities.reasoning, of_list);
    let variants = model::variants(wire, vendor, called, of_model, &own.variants);
    if let Some(of_list) = of_list {
        known = of_list.over(known);
        abilities = abilities.or(of_list.abilities);
    }
    let is = |ours: Option<bool>, theirs: fn(&Listed) -> bool, unlisted: bool| {
        ours.unwrap_or_else(|| listed.map_or(unlisted, theirs))
    };
    let family = own.family.clone().or_else(|| listed.map(|model| model.family.to_owned()));
    Row {
        name,
        family: family.unwrap_or_default(),
        limit: own.limit.over(known.limit),
        cost: own.cost.over(known.cost),
        tools: abilities.tools.unwrap_or(true),
        images: is(abilities.images, |model| model.images, true),
        reasoning: is(
            abilities.reasoning,
            |model| model.thinking != Thinking::Never,
            !variants.is_empty(),
        ),
        temperature: is(abilities.temperature, |model| model.samples, known.abilities.sampling),
        variants: variants.into_iter().map(|(name, _)| name).collect(),
        origin: Origin::BuiltIn,
        default,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_tokens_are_short() {
        for (count, shown) in [
            (0, "0"),
            (999, "999"),
            (8_192, "8k"),
            (200_000, "200k"),
            (1_000_000, "1M"),
            (1_048_576, "1.04M"),
            (1_050_000, "1.05M"),
        ] {
            assert_eq!(tokens(count), shown);
        }
    }
}
