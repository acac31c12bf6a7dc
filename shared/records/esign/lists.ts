/** Reads the electronic signatures of a task, each judged. */
import { esignBlockOf, judgeEsignature } from "../../integrity/esign/judgement.ts";
import type { ListedEsignature, SignaturePage } from "../../protocol/esign.ts";
import type { QueryParams } from "../../protocol/queries.ts";
import type { Reader } from "../../store/store.ts";
import { tenantKeys } from "../kv/keyspace.ts";
import { readEntry } from "../scrub/trail/entries.ts";
import { decodeEsignature, type EsignedVersion, readEsigned } from "./esign-record.ts";

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
  const [values, entries] = await Promise.all([
    reader.getMany(page.map(({ seq }) => keys.esignature(task, seq))),
    reader.getMany(page.map(({ seq }) => keys.audit(task, seq))),
  ]);
  const signatures = page.map((one, i) => {
    const signed = decodeEsignature(values[i])?.signed ?? null;
    return listed({ tenant, task }, one, { signed, entry: readEntry(entries[i]) });
  });
  const next = wanted[limit];
  return { signatures, ...(next !== undefined && { next_seq: next.seq }) };
}

function listed(
  of: { readonly tenant: string; readonly task: string },
  at: EsignedVersion,
  {
    signed,
    entry,
  }: { readonly signed: ListedEsignature["signed"]; readonly entry: ReturnType<typeof readEntry> },
): ListedEsignature {
  const place = { ...of, ...at, facts: entry?.facts };
  const block = esignBlockOf(judgeEsignature(signed, place), at);
  return { ...block, signed, entry: entry?.text ?? null };
}
