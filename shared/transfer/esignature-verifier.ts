/** Verifies the electronic signatures of an exported task, each with the entry that records it and the version before it in the file. */
import { placedAct } from "../integrity/esign/enrolment-act.ts";
import { esignBlockOf, judgeEsignature } from "../integrity/esign/judgement.ts";
import type { AuditEntry } from "../lifecycle/replay.ts";
import type { EsignBlock } from "../protocol/esign.ts";
import type { ExportLineOf } from "../protocol/export-lines.ts";
import type { Task } from "../protocol/task.ts";

export class EsignatureVerifier {
  readonly #blocks: EsignBlock[] = [];
  readonly #task: Pick<Task, "tenant" | "task_id">;
  readonly #hasPasskeyActs: boolean;
  readonly #hashes = new Map<string, string>();
  /** Of each checkpoint, as the entries up to now state it. */
  readonly #newest = new Map<string, number>();

  constructor(task: Pick<Task, "tenant" | "task_id">, hasPasskeyActs: boolean) {
    this.#task = task;
    this.#hasPasskeyActs = hasPasskeyActs;
  }

  /** Of the entries up to now, each with the newest version of its checkpoint. */
  get blocks(): readonly EsignBlock[] {
    return this.#blocks.map((block) => ({
      ...block,
      newest_version: Math.max(block.version, this.#newest.get(block.checkpoint_id) ?? 0),
    }));
  }

  /** A verified version of the file. */
  addVersion({
    id,
    version,
    hash,
  }: {
    readonly id: string;
    readonly version: number;
    readonly hash: string;
  }) {
    this.#hashes.set(`${id}#${version}`, hash);
  }

  add({ seq, esignature, passkey_acts }: ExportLineOf<"audit">, facts: AuditEntry): void {
    const checkpoint_id = String(facts.checkpoint_id);
    const version = Number(facts.version);
    if (typeof facts.new_hash === "string")
      this.#newest.set(checkpoint_id, Math.max(version, this.#newest.get(checkpoint_id) ?? 0));
    if (facts.op !== "signature_add" && esignature === undefined) return;
    const { tenant, task_id: task } = this.#task;
    // A version that the fleet could not read is reported as lost, and its signature cannot be compared.
    const hash = this.#hashes.get(`${checkpoint_id}#${version}`);
    const acts = passkey_acts?.map(placedAct);
    const place = { tenant, task, checkpoint_id, version, hash, seq, facts, acts };
    const judged = judgeEsignature(esignature ?? null, place);
    const isTooOld = !this.#hasPasskeyActs && judged.problem === "passkey_unrecorded";
    this.#blocks.push(esignBlockOf(isTooOld ? { ...judged, problem: "passkey_unproved" } : judged, place));
  }
}
