/** The commands of this process whose outcome is open. Their callers may repeat them, and the writer must know that it sees a repetition. */
import { FleetError } from "../../protocol/errors.ts";

const REMEMBERED_MAX = 10_000;

export class OpenCommands {
  readonly #ids = new Set<string>();

  has(commandId: string): boolean {
    return this.#ids.has(commandId);
  }

  /** Notes how a delivery of the command ended; undefined: with an answer. */
  ended(commandId: string, error: unknown): void {
    if (!(error instanceof FleetError) || error.code !== "TIMEOUT") this.#ids.delete(commandId);
    else {
      if (this.#ids.size >= REMEMBERED_MAX) this.#ids.delete(this.#ids.values().next().value as string);
      this.#ids.add(commandId);
    }
  }
}
