//! Lists the models of a provider with their effective limits, prices, capabilities and variants.

use leftfold_config::{self as settings, Model, ProviderSummary, Settings};
use leftfold_events::turn_config::{Limit, Prices};
use leftfold_providers::catalog::{self, Thinking};
use leftfold_providers::{Wire, catalog::Model as Listed};

use crate::model;

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
    /// `None`: built in.
    pub place: Option<settings::SettingPlace>,
    pub default: bool,
}

/// The models of a provider: those in settings, then the built-in list, then the default if it is
/// in neither.
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
        row(name, wire, vendor, called, own, default)
    };
    let mut rows: Vec<Row> = summary
        .models
        .iter()
        .filter(|(id, _)| settings.is_shown(&summary.name, id))
        .map(|(id, own)| Row { place: Some(own.key_place().clone()), ..row(id, own) })
        .collect();
    let named = |rows: &[Row], id: &str| {
        rows.iter().any(|row| row.name == format!("{}/{id}", summary.name))
    };
    // Models listed in settings are the complete list, and an unknown server may have any models.
    if summary.builtin || summary.open && vendor != "generic" {
        for listed in catalog::models(wire, vendor) {
            if !named(&rows, listed.id) && settings.is_shown(&summary.name, listed.id) {
                rows.push(row(listed.id, &Model::default()));
            }
        }
    }
    let unlisted = default.and_then(|name| name.strip_prefix(&format!("{}/", summary.name)));
    if let Some(id) = unlisted.filter(|id| summary.open && !named(&rows, id)) {
        rows.push(row(id, &Model::default()));
    }
    rows
}

fn row(name: String, wire: Wire, vendor: &str, called: &str, own: &Model, default: bool) -> Row {
    let listed = catalog::model(wire, vendor, called);
    let known = catalog::describe(wire, vendor, called);
    let abilities = own.abilities();
    let variants = model::variants(wire, vendor, called, abilities.reasoning, &own.variants);
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
        temperature: is(abilities.temperature, |model| model.samples, true),
        variants: variants.into_iter().map(|(name, _)| name).collect(),
        place: None,
        default,
    }
}
