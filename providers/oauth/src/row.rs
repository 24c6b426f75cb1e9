//! The description of one vendor's sign-in.

/// A way to sign in at a vendor.
#[derive(Debug, PartialEq, Eq)]
pub struct SignIn {
    /// The provider in settings that it is for.
    pub provider: &'static str,
    /// The name for people, such as `ChatGPT`.
    pub label: &'static str,
    /// The vendor whose API accepts the tokens, by its name in the table of vendors.
    pub vendor: &'static str,
    /// The id under which the client is registered there. It is public.
    pub client_id: &'static str,
    /// Separated by spaces.
    pub scopes: &'static str,
    /// The address of the authorization server, to which paths are appended.
    pub issuer: &'static str,
    /// The environment variable that replaces it.
    pub issuer_variable: &'static str,
    /// The address of the API, to which endpoints are appended.
    pub api: &'static str,
    /// The environment variable that replaces it.
    pub api_variable: &'static str,
    /// The path of the API's list of models, if it has other models for each account.
    pub models: Option<&'static str>,
    /// The path of the endpoint that gives tokens.
    pub token: &'static str,
    /// The path of the endpoint that revokes them, if anybody may use it.
    pub revoke: Option<&'static str>,
    /// Signing in with a browser on this machine.
    pub browser: Option<Browser>,
    /// Signing in with a code, in a browser anywhere.
    pub device: DeviceCode,
    /// The account that requests are for, if they must name it.
    pub account: Option<Account>,
    /// The addresses at an organization's own host.
    pub enterprise: Option<Enterprise>,
}

/// The authorization code flow.
#[derive(Debug, PartialEq, Eq)]
pub struct Browser {
    /// The path of the consent page.
    pub page: &'static str,
    /// Additional parameters of the consent page.
    pub parameters: &'static [(&'static str, &'static str)],
    /// The path of the redirect to this machine.
    pub redirect: &'static str,
    /// The ports that are registered for the redirect. The first one that is free is used.
    pub ports: &'static [u16],
}

/// The kinds of device code flows.
#[derive(Debug, PartialEq, Eq)]
pub enum DeviceCode {
    /// RFC 8628, with the path of its endpoint.
    Standard(&'static str),
    /// OpenAI's own: one endpoint gives the code, another one is polled and gives an authorization code.
    OpenAi {
        start: &'static str,
        poll: &'static str,
        /// The page where people type the code.
        page: &'static str,
        /// The path of the redirect that the authorization code is bound to.
        redirect: &'static str,
    },
}

/// Where tokens name the account, and the header in which requests do.
#[derive(Debug, PartialEq, Eq)]
pub struct Account {
    /// The claim, or an object of claims and the claim in it.
    pub claims: &'static [&'static [&'static str]],
    pub header: &'static str,
}

/// Addresses with `{host}` in the place of an organization's host.
#[derive(Debug, PartialEq, Eq)]
pub struct Enterprise {
    pub issuer: &'static str,
    pub api: &'static str,
}
