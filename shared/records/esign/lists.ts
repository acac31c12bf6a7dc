/** Reads the electronic signatures of a task, each judged. */
import { placedAct } from "../../integrity/esign/enrolment-act.ts";
import { esignBlockOf, judgeEsignature } from "../../integrity/esign/judgement.ts";
import type { ListedEsignature, SignaturePage, SignedAct } from "../../protocol/esign.ts";
import type { QueryParams } from "../../protocol/queries.ts";
import type { Reader } from "../../store/store.ts";
import { decodePlace } from "../checkpoint/checkpoint-location.ts";
import { decodeOrder } from "../checkpoint/order.ts";
import { readable } from "../kv/codec.ts";
import { type TenantKeys, tenantKeys } from "../kv/keyspace.ts";
import { readEntry } from "../scrub/trail/entries.ts";
import { decodeEsignature, type EsignedVersion, readEsigned } from "./esign-record.ts";
import { readPasskeyActs } from "./passkey-acts.ts";

export async function listEsignatures(
  reader: Reader,
  tenant: string,
  { task_id: task, checkpoint_id: id, version, from_seq, limit }: QueryParams<"signatures">,
): Promise<SignaturePage> {
  const keys = tenantKeys(tenant);
  const all = await readEsigned(reader, keys, task, id ?? null);
  const wanted = all.filter(
    (one) => one.seq >= from_seq && (version === undefined || one.version === version),
  );
  const page = wanted.slice(0, limit);
  const signatures = await readListed(reader, { tenant, task }, page);
  const next = wanted[limit];
  return { signatures, ...(next !== undefined && { next_seq: next.seq }) };
}

/** The hash of a version that is known. undefined: it is not compared. */
type KnownHash = (of: EsignedVersion) => string | undefined;

/** Judges each. */
export async function readListed(
  reader: Reader,
  { tenant, task }: { readonly tenant: string; readonly task: string },
  page: readonly EsignedVersion[],
  hashOf: KnownHash = () => undefined,
): Promise<ListedEsignature[]> {
  const keys = tenantKeys(tenant);
  const [values, entries] = await Promise.all([
    reader.getMany(page.map(({ seq }) => keys.esignature(task, seq))),
    reader.getMany(page.map(({ seq }) => keys.audit(task, seq))),
  ]);
  const newest = await newestVersions(reader, keys, task, new Set(page.map((one) => one.checkpoint_id)));
  return Promise.all(
    page.map(async (one, i) => {
      const signed = decodeEsignature(values[i])?.signed ?? null;
      const entry = readEntry(entries[i]);
      const isByPasskey = signed?.proof.kind === "webauthn";
      const acts = isByPasskey ? await readPasskeyActs(reader, tenant, entry?.facts?.passkey_seq) : null;
      const newestVersion = newest.get(one.checkpoint_id);
      return {
        ...listed({ tenant, task, hash: hashOf(one) }, one, { signed, entry, acts }),
        ...(newestVersion !== undefined && { newest_version: newestVersion }),
      };
    }),
  );
}

/** Of the checkpoints whose rows can be read. */
async function newestVersions(
  reader: Reader,
  keys: TenantKeys,
  task: string,
  ids: ReadonlySet<string>,
): Promise<ReadonlyMap<string, number>> {
  const values = await reader.getMany([...ids].map((id) => keys.id(id)));
  const places = values.flatMap((value) => {
    const place = value === undefined ? null : readable(() => decodePlace(value));
    return place?.task === task ? [place.seq] : [];
  });
  const orders = await reader.getMany(places.map((seq) => keys.order(task, seq)));
  return new Map(
    orders.map(decodeOrder).flatMap((order) => (order === null ? [] : [[order.id, order.version]])),
  );
}

interface StoredParts {
  readonly signed: ListedEsignature["signed"];
  readonly entry: ReturnType<typeof readEntry>;
  /** null: the signature is not by a passkey. */
  readonly acts: readonly SignedAct[] | null;
}

function listed(
  of: { readonly tenant: string; readonly task: string; readonly hash: string | undefined },
  at: EsignedVersion,
  { signed, entry, acts }: StoredParts,
): ListedEsignature {
  const place = { ...of, ...at, facts: entry?.facts, acts: acts?.map(placedAct) };
  const block = esignBlockOf(judgeEsignature(signed, place), at);
  const listedActs = acts === null ? {} : { passkey_acts: [...acts] };
  return { ...block, signed, entry: entry?.text ?? null, ...listedActs };
}
