/**
 * Reads of checkpoints. What a read finds corrupt is restored, and then read again, or quarantined, so that it is never returned and never skipped in
 * silence (guarantee 7).
 */

import type { CheckpointPage } from "../../protocol/checkpoint-pages.ts";
import { FleetError } from "../../protocol/errors.ts";
import type { QueryInput, QueryParams, QueryResults } from "../../protocol/queries.ts";
import {
  corruptInLatest,
  findVersion,
  foundLatest,
  readHistory,
  requireSound,
} from "../checkpoint/lookup.ts";
import { signaturesBeside } from "../esign/beside.ts";
import type { Transactions } from "../kv/transactions.ts";
import { withSignature } from "../signing/checkpoint-signature.ts";
import type { Findings } from "./report-corrupt.ts";

export type ReadForm = Pick<QueryInput<"get">, "as_stored" | "signature">;

/** `isAlone`: the signatures of people are not read. */
type FindForm = ReadForm & { readonly isAlone?: boolean };

export class VerifiedReads {
  readonly #transactions: Transactions;
  readonly #findings: Findings;

  constructor(transactions: Transactions, findings: Findings) {
    this.#transactions = transactions;
    this.#findings = findings;
  }

  /**
   * Throws NOT_FOUND when there is none, and CORRUPT, after the quarantine, when its bytes do not verify. As it is stored, it has no signatures of
   * people beside it.
   */
  async find(
    tenant: string,
    id: string,
    version?: number,
    { as_stored: asStored, signature, isAlone = asStored }: FindForm = {},
  ): Promise<QueryResults["get"]> {
    const form = asStored ? "stored" : "checkpoint";
    const { value: hit, restored } = await this.#findings.reread(
      () =>
        this.#transactions.read("get", async (reader) => {
          const hit = await findVersion(reader, tenant, id, version);
          if (hit === null || !hit.found.sound) return hit && { ...hit, beside: {} };
          const { task, found } = hit;
          const beside = isAlone ? {} : await signaturesBeside(reader, tenant, [found.checkpoint]);
          if (!signature) return { task, found, beside };
          const signed = await withSignature(reader, tenant, found[form]);
          return { task, found: { ...found, [form]: signed }, beside };
        }),
      (hit) =>
        hit === null || hit.found.sound || hit.found.corrupt === undefined
          ? null
          : { tenant, task: hit.task, corrupt: [hit.found.corrupt] },
    );
    if (hit === null) {
      throw new FleetError("NOT_FOUND", "there is no such checkpoint", {
        details: { checkpoint_id: id, ...(version !== undefined && { version }) },
      });
    }
    const { found, task, beside } = hit;
    if (!found.sound && found.corrupt !== undefined)
      throw new FleetError("CORRUPT", "the stored checkpoint does not verify", {
        details: { ...found.corrupt, task_id: task },
      });
    return { checkpoint: requireSound(found)[form], ...(restored.length > 0 && { restored }), ...beside };
  }

  /** Falls back over corrupt checkpoints and names them; throws CORRUPT when no sound one can be reached. */
  async latest(tenant: string, task: string): Promise<QueryResults["latest"]> {
    const { value, restored } = await this.#findings.reread(
      () =>
        this.#transactions.read("latest", async (reader) => {
          const result = await foundLatest(reader, tenant, task);
          if (result instanceof FleetError || result.checkpoint === null) return result;
          return { ...result, ...(await signaturesBeside(reader, tenant, [result.checkpoint])) };
        }),
      (result) => ({ tenant, task, corrupt: corruptInLatest(result) }),
    );
    if (value instanceof FleetError) throw value;
    return { ...value, ...(restored.length > 0 && { restored }) };
  }

  async history(tenant: string, query: QueryParams<"history">): Promise<CheckpointPage> {
    const { value } = await this.#findings.reread(
      () =>
        this.#transactions.read("history", async (reader) => {
          const page = await readHistory(reader, tenant, query);
          return { ...page, ...(await signaturesBeside(reader, tenant, page.checkpoints)) };
        }),
      ({ corrupt }) => ({ tenant, task: query.task_id, corrupt }),
    );
    return value;
  }
}
