/** The signing keys of a fleet, for a program that verifies: read once, and again for an id that is not among them, which may be that of a new key. */
import type { SigningKeyList, SigningKeyRecord } from "../../protocol/signing-keys.ts";

export class KnownKeys {
  readonly #read: () => Promise<SigningKeyList>;
  #list: Promise<SigningKeyList> | null = null;
  /** Ids for which the keys were read again in vain: a forger may use any number of them. */
  readonly #unknown = new Set<string>();

  constructor(read: () => Promise<SigningKeyList>) {
    this.#read = read;
  }

  /** Whether every entry of the fleet must be signed. */
  async areRequired(): Promise<boolean> {
    return (await this.#listed()).signatures_required;
  }

  /** null: it is not registered. */
  async find(id: string): Promise<SigningKeyRecord | null> {
    const list = this.#listed();
    const found = keyIn(await list, id);
    if (found !== null || this.#unknown.has(id)) return found;
    // Another call may have read them again meanwhile.
    if (this.#list === list) this.#list = null;
    const again = keyIn(await this.#listed(), id);
    if (again === null) this.#unknown.add(id);
    return again;
  }

  #listed(): Promise<SigningKeyList> {
    if (this.#list !== null) return this.#list;
    const list = this.#read();
    this.#list = list;
    // The next call repeats one that failed.
    list.catch(() => {
      if (this.#list === list) this.#list = null;
    });
    return list;
  }
}

function keyIn({ keys }: SigningKeyList, id: string): SigningKeyRecord | null {
  return keys.find((key) => key.key_id === id) ?? null;
}
