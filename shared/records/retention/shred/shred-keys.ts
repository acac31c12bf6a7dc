/** The keys of shredding. The table in `shared/records/kv/keyspace.ts` says what they hold. */
import type { ShredState } from "../../../protocol/shred.ts";
import type { Bytes, KeyRange } from "../../../store/store.ts";
import { children, element, elementsOf, name } from "../../kv/key-elements.ts";

export function shredKeys(at: (subspace: "shreds", ...parts: Buffer[]) => Buffer) {
  return {
    shred: (state: ShredState, tenant: string, task: string): Bytes =>
      at("shreds", element(state), name(tenant), name(task)),
    /** No state has this name. */
    shredCertificate: (tenant: string, task: string): Bytes =>
      at("shreds", element("certificate"), name(tenant), name(task)),
    /** No state has this name either. */
    lateMessagesOf: (tenant: string, task: string): Bytes =>
      at("shreds", element("late_messages"), name(tenant), name(task)),
    lateMessages: (): KeyRange => children(at("shreds", element("late_messages"))),
    shredsIn: (state: ShredState): KeyRange => children(at("shreds", element(state))),
    shredsOf: (state: ShredState, tenant: string): KeyRange =>
      children(at("shreds", element(state), name(tenant))),
  };
}

/** Reads tenant and task out of a `shreds` key. */
export function parseShred(key: Bytes): { tenant: string; task: string } {
  const [tenant, task] = elementsOf(key).slice(-2) as [string, string];
  return { tenant, task };
}
