/**
 * The words of the search index as they are in its keys. In an encrypted store a word is replaced by its HMAC under a key of the tenant, so that the
 * keys say neither which words occur nor whether two tenants have the same ones. Searches look for whole words, so they find the same.
 *
 * The key follows from the oldest key of the tenant, which stays for the oldest rows.
 */
import { createHmac, createSecretKey, hkdfSync, type KeyObject } from "node:crypto";
import { type Reader, StoreError } from "../../store/store.ts";
import { EncryptedReader } from "./encrypted-reader.ts";
import { EncryptedTx } from "./encrypted-tx.ts";
import type { KeyRing } from "./keys/key-ring.ts";
import { keyPlaceOf } from "./keys/place.ts";

/** A word as it is in keys. */
export type TermOf = (word: string) => string;

/** `write`: a tenant without keys gets some. A search in a tenant without keys finds nothing. */
export type TermUse = "search" | "write";

const BYTES = 16;
/** Of each key. A few megabytes. */
const WORDS_KEPT_MAX = 20_000;
const INFO = "fleet/search-words/v1";

/** Whether an index that begins in this store has blinded words. */
export function hasBlindTerms(reader: Reader): boolean {
  return ringOf(reader) !== null;
}

function ringOf(reader: Reader): KeyRing | null {
  return reader instanceof EncryptedReader || reader instanceof EncryptedTx ? reader.ring : null;
}

/** How the words of a tenant are in the keys of an index whose words are blinded, or are not. */
export async function termsOf(
  reader: Reader,
  tenant: string,
  { isBlinded, use }: { readonly isBlinded: boolean; readonly use: TermUse },
): Promise<TermOf> {
  if (!isBlinded) return (word) => word;
  const ring = ringOf(reader);
  if (ring !== null) return blindTerms(ring, tenant, use);
  throw new StoreError(
    "unavailable",
    "the words of the index are blinded, and the store is open without keys",
  );
}

async function blindTerms(ring: KeyRing, tenant: string, use: TermUse): Promise<TermOf> {
  const place = keyPlaceOf(tenant, null);
  if (use === "write") await ring.prepare(place);
  const keys = await ring.find(place);
  if (keys === null) return (word) => word;
  const oldest = [...keys.byId.values()].at(-1) ?? keys.newest;
  return termsUnder(oldest.secret);
}

/** Of each key. Texts repeat their words, and an HMAC takes longer than a look. */
const termsByKey = new WeakMap<KeyObject, TermOf>();

function termsUnder(secret: KeyObject): TermOf {
  const found = termsByKey.get(secret);
  if (found !== undefined) return found;
  // Node needs seven times as long with the bytes of a key.
  const key = createSecretKey(Buffer.from(hkdfSync("sha256", secret.export(), Buffer.alloc(0), INFO, 32)));
  const terms = new Map<string, string>();
  const termOf = (word: string): string => {
    const known = terms.get(word);
    if (known !== undefined) return known;
    const term = createHmac("sha256", key).update(word).digest().toString("base64url", 0, BYTES);
    if (terms.size >= WORDS_KEPT_MAX) terms.clear();
    terms.set(word, term);
    return term;
  };
  termsByKey.set(secret, termOf);
  return termOf;
}
