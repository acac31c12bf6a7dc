/**
 * Sends the commands of a spool, oldest first, and removes a file once the queue has stored all of it. Before each batch, a mark in the
 * file records how far it may have been sent. After a crash the next sender repeats at most that batch, under the same ids, while the
 * fleet remembers them. An older command that may have been sent is set aside for an operator: sent again, it might be applied twice.
 */
import { BusError } from "../../bus/bus.ts";
import { groupBy } from "../../protocol/group-by.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { Clock } from "../../runtime/clock.ts";
import type { SpoolFolder } from "./folder.ts";
import { type Aside, type AsideReason, type Line, linesOf, type Mark, type SpooledCommand } from "./line.ts";
import type { SpoolSeal } from "./seal.ts";

/** Resolves with undefined once the queue has stored the command, else with the reason that it never will. Throws other errors. */
export type Send = (command: SpooledCommand) => Promise<"too_large" | "forbidden" | undefined>;

export interface SenderParts {
  readonly folder: SpoolFolder;
  readonly clock: Clock;
  readonly seal: SpoolSeal;
  readonly send: Send;
  /** Called with each command that no longer waits, in the order of its task. */
  readonly onRemoved: (command: SpooledCommand) => void;
  readonly onAside: (aside: Aside, command: SpooledCommand | undefined) => void;
}

interface AsideCommand {
  readonly command: SpooledCommand;
  readonly since: number | undefined;
}

type CommandLine = Line & { readonly kind: "command" };

const BATCH_COUNT = 64;
const NEVER: Mark = { acked: 0, sending: 0, at: 0 };

export class SpoolSender {
  readonly #parts: SenderParts;
  /** The current file, and the offsets of its lines that are done: a failed batch is repeated without them. */
  #file = "";
  readonly #done = new Set<number>();

  constructor(parts: SenderParts) {
    this.#parts = parts;
  }

  /** True when no command is left; false when the signal stopped it. Throws the errors of `send` and of the disk: call it again later. */
  async run(signal: AbortSignal): Promise<boolean> {
    const { folder } = this.#parts;
    while (!signal.aborted) {
      const [name] = await folder.closed();
      if (name === undefined) {
        if (await folder.close()) continue;
        return true;
      }
      if (name !== this.#file) this.#done.clear();
      this.#file = name;
      if (await this.#sendFile(name, signal)) await folder.remove(name);
    }
    return false;
  }

  async #sendFile(name: string, signal: AbortSignal): Promise<boolean> {
    const bytes = await this.#parts.folder.read(name);
    const lines = [...linesOf(bytes)];
    const commands = unsent(lines).filter(({ start }) => !this.#done.has(start));
    for (let at = 0; at < commands.length; at += BATCH_COUNT) {
      if (signal.aborted) return false;
      await this.#sendBatch(name, bytes, commands.slice(at, at + BATCH_COUNT), lastMark(lines));
    }
    // A truncated line was never acknowledged, a line that the disk damaged was. They look the same, so both are kept.
    for (const line of lines)
      if (line.kind === "damaged" || line.kind === "newer") await this.#setAside(line.kind, bytes, line);
    return true;
  }

  /** The commands of one task are sent one after the other, different tasks concurrently. */
  async #sendBatch(name: string, bytes: Uint8Array, batch: readonly CommandLine[], before: Mark) {
    const { folder, clock } = this.#parts;
    const [first, last] = [batch[0]!, batch.at(-1)!];
    const inDoubt = first.start < before.sending;
    const mark = { acked: first.start, sending: last.end, at: inDoubt ? before.at : clock.now() };
    await folder.mark(name, mark).catch(unlessFull);
    const chains = [...groupBy(batch, ({ command }) => `${command.tenant}.${command.taskId}`).values()];
    const ends = await Promise.allSettled(chains.map((chain) => this.#sendChain(bytes, chain, before)));
    // The failure is thrown after all chains have ended, so that none is still sending when the batch is repeated.
    const failures = ends.flatMap((end) => (end.status === "rejected" ? [end.reason as unknown] : []));
    if (failures.length === 0) return;
    const nothingSent = failures.every(isCertain) && !batch.some(({ start }) => this.#done.has(start));
    if (nothingSent) await folder.mark(name, { ...before, acked: first.start }).catch(unlessFull);
    throw failures[0];
  }

  async #sendChain(bytes: Uint8Array, chain: readonly CommandLine[], mark: Mark): Promise<void> {
    const { clock, onRemoved } = this.#parts;
    for (const line of chain) {
      const { command } = line;
      const since = sentSince(line, mark);
      const refused = isForgotten(since, clock.now()) ? "doubtful" : await this.#sendOpened(command);
      if (refused !== undefined) await this.#setAside(refused, bytes, line, { command, since });
      this.#done.add(line.start);
      onRemoved(command);
    }
  }

  /** A command without its key is set aside: the key may be gone for good, and the commands behind it must not wait for it. */
  async #sendOpened(command: SpooledCommand): Promise<AsideReason | undefined> {
    const opened = await this.#parts.seal.open(command);
    return typeof opened === "string" ? opened : this.#parts.send(opened);
  }

  /** The mark goes with the file, so the line keeps the time since which it is in doubt. */
  async #setAside(reason: AsideReason, bytes: Uint8Array, line: Line, of: Partial<AsideCommand> = {}) {
    const { command, since } = of;
    const text = asText(bytes.subarray(line.start, line.end));
    const aside = { reason, at: this.#parts.clock.now(), since, line: text };
    await this.#parts.folder.setAside([aside]);
    this.#parts.onAside(aside, command);
  }
}

/** The commands of a file that must still be sent, according to its marks. */
export function unsent(lines: readonly Line[]): CommandLine[] {
  const acked = Math.max(0, ...lines.map((line) => (line.kind === "mark" ? line.mark.acked : 0)));
  return lines.flatMap((line) => (line.kind === "command" && line.start >= acked ? [line] : []));
}

function lastMark(lines: readonly Line[]): Mark {
  const last = lines.findLast((line) => line.kind === "mark");
  return last?.kind === "mark" ? last.mark : NEVER;
}

/** The earliest time at which a command may have been sent; undefined if it was not. */
function sentSince({ start, command }: CommandLine, mark: Mark): number | undefined {
  const times = [...(start < mark.sending ? [mark.at] : []), ...(command.sent ? [command.at] : [])];
  return times.length === 0 ? undefined : Math.min(...times);
}

/** True if the fleet may no longer remember a command that may have been sent at this time. */
export function isForgotten(since: number | undefined, now: number): boolean {
  return since !== undefined && now - since > LIMITS.redelivery_ms_max;
}

/** True if the queue certainly did not store the command that failed with this error. */
function isCertain(error: unknown): boolean {
  return error instanceof BusError && error.kind !== "timeout";
}

function asText(line: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(line).replace(/^\n/, "");
  } catch {
    return Buffer.from(line).toString("base64");
  }
}

/** A full disk must not stop the sending that frees it. Without the mark, a crash costs more repeated commands and nothing else. */
function unlessFull(error: NodeJS.ErrnoException): void {
  if (error.code !== "ENOSPC" && error.code !== "EDQUOT") throw error;
}
