//! Macros for code that follows from a list of names.

/// Implements `Debug` for structs with values that may be secrets, or that have no `Debug`: it shows only the named fields.
#[macro_export]
macro_rules! debug_fields {
    ($($name:ident $(<$life:lifetime>)? { $($field:ident),* })*) => {$(
        impl ::std::fmt::Debug for $name $(<$life>)? {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.debug_struct(stringify!($name))
                    $(.field(stringify!($field), &self.$field))*
                    .finish_non_exhaustive()
            }
        }
    )*};
}

/// Defines an enum whose variants have names: `name()` returns them, and `ALL` lists the variants.
#[macro_export]
macro_rules! named {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal,)* }
    ) => {
        $(#[$meta])*
        $vis enum $name { $($(#[$doc])* $variant,)* }

        impl $name {
            /// In the order of the definition.
            $vis const ALL: [Self; [$(stringify!($variant)),*].len()] = [$(Self::$variant),*];

            /// The name for programs.
            $vis const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }
    };
}
