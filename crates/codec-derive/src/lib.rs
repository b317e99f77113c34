//! `#[derive(Codec)]`: one declaration of a wire or disk type gives its encoder and its decoder.
//!
//! Attributes of the type:
//! - `#[codec(version = V, compat = C)]`: Ceph's `ENCODE_START(V, C)` envelope: version, compat, length. The
//!   decoder refuses a compat above V and skips an unknown tail.
//! - `#[codec(version_byte = V)]`: a single version byte and no length (older Ceph structs).
//! - neither: just the fields.
//!
//! Attributes of a field, in wire order:
//! - `#[codec(since = N)]`: present from struct version N on; decodes to `Default` from older bytes.
//! - `#[codec(skip)]`: not on the wire; decodes to `Default`.
//! - `#[codec(lossy)]`: text of a client, which may hold any bytes (`codec::DecodeLossy`). Not with `since`.

use proc_macro::TokenStream;
use quote::{format_ident, quote};
use syn::{Data, DeriveInput, Fields, LitInt, parse_macro_input};

/// Structs with more fields are not made part of their callers.
const INLINE_FIELDS_MAX: usize = 4;

#[derive(Default)]
struct TypeAttrs {
    version: Option<u8>,
    compat: Option<u8>,
    version_byte: Option<u8>,
}

#[derive(Default)]
struct FieldAttrs {
    since: Option<u8>,
    skip: bool,
    lossy: bool,
}

fn type_attrs(input: &DeriveInput) -> syn::Result<TypeAttrs> {
    let mut out = TypeAttrs::default();
    for attr in input.attrs.iter().filter(|a| a.path().is_ident("codec")) {
        attr.parse_nested_meta(|meta| {
            let slot = if meta.path.is_ident("version") {
                &mut out.version
            } else if meta.path.is_ident("compat") {
                &mut out.compat
            } else if meta.path.is_ident("version_byte") {
                &mut out.version_byte
            } else {
                return Err(meta.error("expected version, compat or version_byte"));
            };
            *slot = Some(meta.value()?.parse::<LitInt>()?.base10_parse()?);
            Ok(())
        })?;
    }
    Ok(out)
}

fn field_attrs(field: &syn::Field) -> syn::Result<FieldAttrs> {
    let mut out = FieldAttrs::default();
    for attr in field.attrs.iter().filter(|a| a.path().is_ident("codec")) {
        attr.parse_nested_meta(|meta| {
            if meta.path.is_ident("since") {
                out.since = Some(meta.value()?.parse::<LitInt>()?.base10_parse()?);
            } else if meta.path.is_ident("skip") {
                out.skip = true;
            } else if meta.path.is_ident("lossy") {
                out.lossy = true;
            } else {
                return Err(meta.error("expected since, skip or lossy"));
            }
            Ok(())
        })?;
    }
    if out.lossy && (out.since.is_some() || out.skip) {
        return Err(syn::Error::new_spanned(field, "lossy goes with neither since nor skip"));
    }
    Ok(out)
}

/// Derives `codec::Encode` and `codec::Decode` for a struct; see the crate's page for the attributes.
#[proc_macro_derive(Codec, attributes(codec))]
pub fn derive_codec(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand(&input).unwrap_or_else(|e| e.to_compile_error()).into()
}

/// What reads a field that is on the wire.
fn decode_field(attrs: &FieldAttrs) -> proc_macro2::TokenStream {
    match attrs.since {
        None if attrs.lossy => quote!(::codec::DecodeLossy::decode_lossy(input)?),
        Some(since) => quote! {
            if struct_v >= #since {
                ::codec::Decode::decode(input)?
            } else {
                ::core::default::Default::default()
            }
        },
        None => quote!(::codec::Decode::decode(input)?),
    }
}

fn expand(input: &DeriveInput) -> syn::Result<proc_macro2::TokenStream> {
    let name = &input.ident;
    let attrs = type_attrs(input)?;
    let Data::Struct(data) = &input.data else {
        return Err(syn::Error::new_spanned(name, "Codec is derived for structs"));
    };
    let (impl_generics, ty_generics, where_clause) = input.generics.split_for_impl();
    let mut encode = Vec::new();
    let mut decode = Vec::new();
    let mut build = Vec::new();
    for (index, field) in data.fields.iter().enumerate() {
        let access = match &field.ident {
            Some(ident) => quote!(#ident),
            None => {
                let index = syn::Index::from(index);
                quote!(#index)
            }
        };
        let local = format_ident!("field_{}", index);
        let field_attrs = field_attrs(field)?;
        let ty = &field.ty;
        if field_attrs.skip {
            decode.push(quote!(let #local = <#ty as ::core::default::Default>::default();));
        } else {
            encode.push(quote!(::codec::Encode::encode(&self.#access, out, features);));
            let value = decode_field(&field_attrs);
            decode.push(quote!(let #local: #ty = #value;));
        }
        build.push(match &field.ident {
            Some(ident) => quote!(#ident: #local),
            None => quote!(#local),
        });
    }
    let construct = match &data.fields {
        Fields::Named(_) => quote!(Self { #(#build),* }),
        Fields::Unnamed(_) => quote!(Self(#(#build),*)),
        Fields::Unit => quote!(Self),
    };
    let (encode_body, decode_body) = match (attrs.version, attrs.version_byte) {
        (Some(version), None) => {
            let compat = attrs.compat.unwrap_or(1);
            (
                quote!(::codec::encode_envelope(out, #version, #compat, |out| { #(#encode)* });),
                quote! {
                    ::codec::decode_envelope(input, #version, stringify!(#name), |input, struct_v| {
                        let _ = struct_v;
                        #(#decode)*
                        Ok(#construct)
                    })
                },
            )
        }
        (None, Some(version)) => (
            quote!(::codec::Encode::encode(&#version, out, features); #(#encode)*),
            quote! {
                let struct_v: u8 = ::codec::Decode::decode(input)?;
                let _ = struct_v;
                #(#decode)*
                Ok(#construct)
            },
        ),
        (None, None) => (
            quote!(#(#encode)*),
            quote! {
                let struct_v = u8::MAX;
                let _ = struct_v;
                #(#decode)*
                Ok(#construct)
            },
        ),
        (Some(_), Some(_)) => {
            return Err(syn::Error::new_spanned(name, "either version or version_byte"));
        }
    };
    // Small ones are used in other crates all the time.
    let inline = (data.fields.len() <= INLINE_FIELDS_MAX).then(|| quote!(#[inline]));
    Ok(quote! {
        impl #impl_generics ::codec::Encode for #name #ty_generics #where_clause {
            #inline
            fn encode(&self, out: &mut ::std::vec::Vec<u8>, features: ::codec::Features) {
                let _ = features;
                #encode_body
            }
        }
        impl #impl_generics ::codec::Decode for #name #ty_generics #where_clause {
            #inline
            fn decode(input: &mut ::codec::Reader) -> ::core::result::Result<Self, ::codec::DecodeError> {
                #decode_body
            }
        }
    })
}
