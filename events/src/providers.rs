//! The wire formats and providers of a build, as data. The providers crate makes this data, and the
//! crate that reads settings receives it, so that neither depends on the other. This module never
//! names a vendor.

/// The wire formats, and the providers that need no description in settings.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct KnownProviders {
    /// In the order in which lists show them.
    pub wires: Vec<KnownWire>,
    /// In the order in which lists show them.
    pub builtin: Vec<Builtin>,
    /// The wire format of a server whose settings give only the address.
    pub usual_wire: Option<KnownWire>,
    /// The providers that people can sign in at.
    pub sign_ins: Vec<KnownSignIn>,
}

impl KnownProviders {
    pub fn wire(&self, name: &str) -> Option<KnownWire> {
        self.wires.iter().copied().find(|wire| wire.name == name)
    }

    /// The wire format that OpenCode's settings name by this npm package.
    pub fn wire_of_npm(&self, package: &str) -> Option<KnownWire> {
        let of_wire = self.wires.iter().copied().find(|wire| wire.npm == Some(package));
        of_wire.or_else(|| self.wire(self.builtin_of_npm(package)?.wire))
    }

    /// The built-in provider that OpenCode's settings name by this npm package.
    pub fn builtin_of_npm(&self, package: &str) -> Option<&Builtin> {
        self.builtin.iter().find(|builtin| builtin.npm == Some(package))
    }

    pub fn builtin(&self, name: &str) -> Option<&Builtin> {
        self.builtin.iter().find(|builtin| builtin.name == name)
    }

    pub fn sign_in(&self, provider: &str) -> Option<&KnownSignIn> {
        self.sign_ins.iter().find(|sign_in| sign_in.provider == provider)
    }

    /// The wire format of a model at a built-in provider, if it is not that of the provider.
    pub fn wire_of_model(&self, builtin: &Builtin, model: &str) -> Option<KnownWire> {
        let (_, wire) = builtin.wires.iter().find(|(begin, _)| model.starts_with(begin))?;
        self.wire(wire)
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
    /// The npm package that names this format in OpenCode's settings.
    pub npm: Option<&'static str>,
    /// Whether requests go to a server, which may need a key.
    pub is_remote: bool,
}

impl KnownWire {
    pub fn name(self) -> &'static str {
        self.name
    }
}

/// A way to sign in at a provider instead of storing a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownSignIn {
    /// The provider's name in settings.
    pub provider: &'static str,
    /// The name of the account for people.
    pub label: &'static str,
    /// The vendor whose quirks and models to expect after signing in.
    pub vendor: &'static str,
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
    /// The names of the wire formats of some models, by the beginning of the model's id. The first one counts.
    pub wires: &'static [(&'static str, &'static str)],
    /// Environment variables with a key; the first one that is set is used.
    pub keys: &'static [&'static str],
    /// The environment variable with a different base URL; empty: none.
    pub base_url: &'static str,
    /// The default model if the key is set; empty: none.
    pub model: &'static str,
    /// The npm package that names this provider in OpenCode's settings, if the package of its wire format does not.
    pub npm: Option<&'static str>,
    /// The parts of its own address that differ from user to user.
    pub parameters: &'static [Parameter],
    /// Further options that variables or the vendor's files may set instead. It can do without them.
    pub optional_parameters: &'static [Parameter],
    /// Whether it finds credentials in the vendor's usual files and variables if it has no key.
    pub finds_credentials: bool,
    /// Variables that show that this user has credentials of the vendor. If there are any, credentials are looked for
    /// only if one of them is set or settings describe the provider.
    pub credential_signs: &'static [&'static str],
    /// Variables with values that are hidden as keys are, but are no keys of their own.
    pub hidden: &'static [&'static str],
}

impl Builtin {
    /// A provider with only a key; its name and its wire format are to be filled in.
    pub const PLAIN: Self = Self {
        name: "",
        aliases: &[],
        wire: "",
        wires: &[],
        keys: &[],
        base_url: "",
        model: "",
        npm: None,
        parameters: &[],
        optional_parameters: &[],
        finds_credentials: false,
        credential_signs: &[],
        hidden: &[],
    };
}

/// A part of a provider's address that the user chooses, such as a project or a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name in the provider's `options`.
    pub option: &'static str,
    /// Environment variables with its value; the first one that is set is used.
    pub variables: &'static [&'static str],
    /// `None`: there is no address without it, unless it is optional.
    pub default: Option<&'static str>,
    /// Whether the address for users with a key does without it.
    pub is_unneeded_with_key: bool,
}
