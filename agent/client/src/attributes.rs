//! `C_GetAttributeValue`: what is asked, and what there is to tell.

use cryptoki_sys::CK_ATTRIBUTE;
use jeton_agent_wire::call::{Length, Told};
use jeton_words::attribute::{AttributeView, Shown, ULONG};
use jeton_words::bounded::{MAX_ATTRIBUTES, MAX_DEPTH};
use jeton_words::error::{Error, Result};
use jeton_words::id::AttributeType;
use jeton_words::token::{Attributes, Room};

use crate::answer_check::MAX_LENGTH;
use crate::attribute_numbers;

/// The size of an attribute in the application, and in messages.
const ATTRIBUTE: u64 = size_of::<CK_ATTRIBUTE>() as u64;
const ATTRIBUTE_SENT: u64 = 24;
/// The size of a number in messages.
const NUMBER: u64 = 8;

/// Returns what is asked. An application may pass memory that contains anything for an array of
/// attributes that the object lacks, so the room for such arrays has a limit.
pub fn asked(attributes: &impl Attributes) -> Vec<(AttributeType, Room)> {
    let mut left = MAX_ATTRIBUTES.saturating_sub(attributes.count());
    (0..attributes.count())
        .map(|index| {
            let (kind, mut room) = attributes.asked(index);
            limit(Some(kind), &mut room, &mut left, MAX_DEPTH);
            (kind, room)
        })
        .collect()
}

fn limit(kind: Option<AttributeType>, room: &mut Room, left: &mut usize, depth: usize) {
    match room {
        Room::Length => {}
        Room::Bytes(len) => *len = attribute_numbers::room::<ULONG>(kind, *len),
        Room::Template(len, rooms) => {
            *len = (*len / ATTRIBUTE).saturating_mul(ATTRIBUTE_SENT) + *len % ATTRIBUTE;
            rooms.truncate(if depth == 0 { 0 } else { *left });
            *left -= rooms.len();
            // The types are those of the object.
            rooms.iter_mut().for_each(|room| limit(None, room, left, depth - 1));
        }
    }
}

/// Returns whether an answer has a part for each room, of the form of the room.
pub fn are_right(told: &[Told<'_>], rooms: &[Room]) -> bool {
    told.len() == rooms.len() && told.iter().zip(rooms).all(|(told, room)| is_right(told, room))
}

/// Returns whether an agent may tell this of an attribute with this room. A value where an array
/// is asked, or an array where a value is, would make pointers of bytes that the agent chose. With
/// another error than these two, the call would have failed and written nothing. No value is longer
/// than its room.
fn is_right(told: &Told<'_>, room: &Room) -> bool {
    match (told, room) {
        (Told::Template(within), Room::Template(len, rooms))
            if within.len() as u64 * ATTRIBUTE_SENT <= *len =>
        {
            within.iter().enumerate().all(|(index, (_, told))| {
                let room = rooms.get(index).unwrap_or(&Room::Length);
                has_lengths_only(told) || is_right(told, room)
            })
        }
        (Told::Number(_), Room::Bytes(len)) => NUMBER <= *len,
        (Told::Bytes(data), Room::Bytes(len)) => data.0.len() as u64 <= *len,
        (Told::Length(_) | Told::Refused(_), _) => has_lengths_only(told),
        _ => false,
    }
}

/// Returns whether the answer has no value. Of an array in an array, it has only types and lengths.
fn has_lengths_only(told: &Told<'_>) -> bool {
    match told {
        Told::Length(Length::Number) => true,
        Told::Length(Length::Bytes(len)) => *len <= MAX_LENGTH as u64,
        Told::Length(Length::Attributes(count)) => *count <= MAX_ATTRIBUTES as u64,
        Told::Refused(error) => matches!(error, Error::AttributeSensitive | Error::AttributeTypeInvalid),
        Told::Template(within) => {
            within.iter().all(|(_, told)| matches!(told, Told::Length(_)) && has_lengths_only(told))
        }
        Told::Number(_) | Told::Bytes(_) => false,
    }
}

/// Tells what the agent told of the attributes that were asked.
pub fn tell(attributes: &mut impl Attributes, told: &[Told<'_>]) {
    for (index, told) in told.iter().enumerate() {
        let (kind, _) = attributes.asked(index);
        attributes.tell(index, view(kind, told));
    }
}

fn view<'a>(kind: AttributeType, told: &'a Told<'_>) -> Result<AttributeView<'a>> {
    Ok(match told {
        Told::Refused(error) => return Err(*error),
        Told::Length(length) => AttributeView::Length(match length {
            Length::Number => ULONG,
            Length::Bytes(len) => attribute_numbers::length::<ULONG>(kind, *len),
            Length::Attributes(count) => count.saturating_mul(ATTRIBUTE) as usize,
        }),
        Told::Number(number) => AttributeView::Bytes(Shown::Number(attribute_numbers::number(*number))),
        Told::Bytes(data) => AttributeView::Bytes(attribute_numbers::value::<ULONG>(kind, &data.0)),
        Told::Template(within) => {
            let views = within.iter().map(|(kind, told)| Ok((*kind, view(*kind, told)?)));
            AttributeView::Template(views.collect::<Result<_>>()?)
        }
    })
}
