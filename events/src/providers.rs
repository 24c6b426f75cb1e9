//! What a build knows of providers, as data. The crate that speaks to providers makes it, and the
//! one that reads settings is handed it, so that neither depends on the other. Never names a vendor.

/// The wire formats and the providers that settings can name without describing them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct KnownProviders {
    /// In the order in which people see them.
    pub wires: Vec<KnownWire>,
    /// In the order in which people see them.
    pub builtin: Vec<Builtin>,
    /// Spoken by a server of which settings give no more than the address.
    pub usual_wire: Option<KnownWire>,
}

impl KnownProviders {
    pub fn wire(&self, name: &str) -> Option<KnownWire> {
        self.wires.iter().copied().find(|wire| wire.name == name)
    }

    /// The wire format of an npm package by which OpenCode's settings name it.
    pub fn wire_of_npm(&self, package: &str) -> Option<KnownWire> {
        self.wires.iter().copied().find(|wire| wire.npm == Some(package))
    }

    pub fn builtin(&self, name: &str) -> Option<&Builtin> {
        self.builtin.iter().find(|builtin| builtin.name == name)
    }

    /// The wire format of a provider with this name.
    pub fn wire_of(&self, provider: &str) -> Option<KnownWire> {
        let is_called =
            |builtin: &&Builtin| builtin.name == provider || builtin.aliases.contains(&provider);
        self.wire(self.builtin.iter().find(is_called)?.wire)
    }
}

/// A wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownWire {
    /// The name in settings.
    pub name: &'static str,
    /// The npm package by which OpenCode's settings name the same format.
    pub npm: Option<&'static str>,
    /// Whether a server is asked, which may want a key.
    pub is_remote: bool,
}

impl KnownWire {
    pub fn name(self) -> &'static str {
        self.name
    }
}

/// A provider that needs no settings but a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Builtin {
    /// The provider's name in settings.
    pub name: &'static str,
    /// Other names of providers that speak its wire format.
    pub aliases: &'static [&'static str],
    /// The name of its wire format.
    pub wire: &'static str,
    /// Environment variables with a key; the first that is set counts.
    pub keys: &'static [&'static str],
    /// The environment variable with another base URL.
    pub base_url: &'static str,
    /// The model used if no model is set and the key is there; empty: none.
    pub model: &'static str,
}
