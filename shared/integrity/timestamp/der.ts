/**
 * Reads DER (X.690), the encoding of certificates and time-stamps, in its only form: definite lengths in their shortest encoding, and
 * tags of one byte. So two verifiers cannot read different values in the same bytes.
 */

export interface DerValue {
  readonly tag: number;
  readonly content: Buffer;
  /** With tag and length. */
  readonly whole: Buffer;
}

export const DER = {
  boolean: 0x01,
  integer: 0x02,
  bitString: 0x03,
  octetString: 0x04,
  oid: 0x06,
  utcTime: 0x17,
  generalizedTime: 0x18,
  sequence: 0x30,
  set: 0x31,
  /** The tags [0] to [3] with members. */
  part0: 0xa0,
  part1: 0xa1,
  part3: 0xa3,
} as const;

/** The bytes are not DER, or not of the expected structure. */
export class NotDer extends Error {
  override readonly name = "NotDer";
}

const LONG_FORM = 0x80;
const LENGTH_BYTES_MAX = 3;
const TAG_NUMBER = 0x1f;

/** The values that fill the bytes. Throws NotDer. */
export function derValues(bytes: Buffer): DerValue[] {
  const values: DerValue[] = [];
  for (let at = 0; at < bytes.length; ) {
    const tag = bytes[at]!;
    const { start, end } = extentAt(bytes, at + 1);
    if ((tag & TAG_NUMBER) === TAG_NUMBER || end > bytes.length) throw new NotDer();
    values.push({ tag, content: bytes.subarray(start, end), whole: bytes.subarray(at, end) });
    at = end;
  }
  return values;
}

function extentAt(bytes: Buffer, at: number): { readonly start: number; readonly end: number } {
  const first = bytes[at];
  if (first === undefined) throw new NotDer();
  if (first < LONG_FORM) return { start: at + 1, end: at + 1 + first };
  const count = first - LONG_FORM;
  const start = at + 1 + count;
  if (count === 0 || count > LENGTH_BYTES_MAX || start > bytes.length) throw new NotDer();
  const length = bytes.readUIntBE(at + 1, count);
  if (length < LONG_FORM || bytes[at + 1] === 0) throw new NotDer();
  return { start, end: start + length };
}

/** The one value that fills the bytes. Throws NotDer. */
export function derValue(bytes: Buffer): DerValue {
  const [only, ...others] = derValues(bytes);
  if (only === undefined || others.length > 0) throw new NotDer();
  return only;
}

/** Throws NotDer unless the value is there and has the tag. */
export function derContent(value: DerValue | undefined, tag: number): Buffer {
  if (value?.tag !== tag) throw new NotDer();
  return value.content;
}

/** The members of the value, by default of a sequence. */
export function derMembers(value: DerValue | undefined, tag: number = DER.sequence): DerValue[] {
  return derValues(derContent(value, tag));
}

/** The one value that fills the content of a value with the tag. */
export function derOnly(value: DerValue | undefined, tag: number): DerValue {
  return derValue(derContent(value, tag));
}

/** An object identifier, as the hex of its content. */
export function derOid(value: DerValue | undefined): string {
  const content = derContent(value, DER.oid);
  if (content.length === 0) throw new NotDer();
  return content.toString("hex");
}

/** The identifier of an algorithm, without its parameters. */
export function derAlgorithm(value: DerValue | undefined): string {
  return derOid(derMembers(value)[0]);
}

/** The bytes of a positive number, without a sign. */
export function derPositive(value: DerValue | undefined): Buffer {
  const content = derContent(value, DER.integer);
  const [first = 0x80, second = 0] = content;
  if (first >= 0x80 || (first === 0 && second < 0x80)) throw new NotDer();
  return first === 0 ? content.subarray(1) : content;
}

/** The bytes of a bit string whose last byte is used as a whole. */
export function derBytes(value: DerValue | undefined): Buffer {
  const content = derContent(value, DER.bitString);
  if (content[0] !== 0) throw new NotDer();
  return content.subarray(1);
}

const TIME_DIGITS = /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(?:\.(\d{1,9}))?Z$/;
/** Two digits from this one on are of the last century. */
const CENTURY = "50";

/** Milliseconds since the epoch. */
export function derTime(value: DerValue | undefined): number {
  const text = value?.content.toString("latin1") ?? "";
  const isShort = value?.tag === DER.utcTime && /^\d{12}Z$/.test(text);
  if (!isShort && value?.tag !== DER.generalizedTime) throw new NotDer();
  const century = text.slice(0, 2) < CENTURY ? "20" : "19";
  const found = TIME_DIGITS.exec(isShort ? century + text : text);
  if (found === null || found[1] === "0000") throw new NotDer();
  const [, year, month, day, hour, minute, second, fraction = ""] = found;
  const exact = `${year}-${month}-${day}T${hour}:${minute}:${second}.${`${fraction}000`.slice(0, 3)}Z`;
  const time = Date.parse(exact);
  // Some days and hours that do not exist are read as others.
  if (Number.isNaN(time) || new Date(time).toISOString() !== exact) throw new NotDer();
  return time;
}
