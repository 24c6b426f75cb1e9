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
