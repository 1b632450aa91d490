//! Nested lists and objects. Errors name the element and the field and never repeat the value.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Reads a list so that errors name the element; `null` is `None`. For `#[serde(default, deserialize_with)]`.
pub(crate) fn optional_list<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Vec<T>>, D::Error> {
    from.deserialize_any(ListVisitor(PhantomData))
}

/// An object in a list or as a field.
#[derive(Debug)]
pub(crate) struct Nested<T>(pub(crate) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Nested<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(ObjectVisitor(PhantomData)).map(Self)
    }
}

/// Rejects scalars; serde's default error would repeat the value.
macro_rules! no_scalars {
    ($expected:literal: $($visit:ident($scalar:ty),)*) => {$(
        fn $visit<E: Error>(self, _: $scalar) -> Result<Self::Value, E> {
            Err(E::custom(concat!("must be ", $expected)))
        }
    )*};
}

struct ListVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
    type Value = Option<Vec<T>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = seq.next_element()? {
            elements.push(element);
        }
        Ok(Some(elements))
    }

    fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<Self::Value, A::Error> {
        Err(A::Error::custom("must be a list"))
    }

    no_scalars! { "a list": visit_bool(bool), visit_i64(i64), visit_u64(u64), visit_f64(f64), visit_str(&str), }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }

    fn visit_unit<E: Error>(self) -> Result<T, E> {
        Err(E::custom("must be an object"))
    }

    // A derived struct would also accept a list of its fields.
    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<T, A::Error> {
        Err(A::Error::custom("must be an object"))
    }

    no_scalars! { "an object": visit_bool(bool), visit_i64(i64), visit_u64(u64), visit_f64(f64), visit_str(&str), }
}
