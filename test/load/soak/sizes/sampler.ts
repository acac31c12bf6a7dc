// Takes the samples of a soak: everything at one moment, as far as one moment allows.

import type { SoakedFleet } from "../soaked-fleet.ts";
import { busSizes } from "./bus-sizes.ts";
import { diskSizes } from "./disk-sizes.ts";
import { processSizes } from "./process-sizes.ts";
import type { Sample, Values } from "./sample.ts";
import { storeSizes } from "./store-sizes.ts";

/** The rows are counted so rarely that this takes at most this share of the time, and in every fourth sample at least. */
const COUNTING_SHARE = 0.03;
const COUNTED_EVERY = 4;

export interface SamplerParts {
  readonly fleet: SoakedFleet;
  /** The processes of the load, by name. */
  readonly others: Readonly<Record<string, number>>;
  readonly probeFolder: string;
}

export class Sampler {
  readonly #parts: SamplerParts;
  readonly #begin = performance.now();
  #countAgainAt = 0;
  #samples = 0;

  constructor(parts: SamplerParts) {
    this.#parts = parts;
  }

  /** `behind`: commits that the search index does not contain yet; null: unknown. Throws if a process has ended. */
  async take(commands: number, behind: number | null): Promise<Sample> {
    const { fleet } = this.#parts;
    const hours = (performance.now() - this.#begin) / 3_600_000;
    const values: Values = {
      ...this.#processes(),
      ...(await busSizes(fleet.monitorUrl)),
      ...diskSizes(fleet.home),
      ...(await this.#store()),
      ...(behind !== null && { "search index": { behind } }),
    };
    return { hours, commands, values };
  }

  #processes(): Values {
    const { fleet, others, probeFolder } = this.#parts;
    const all = Object.entries({ ...fleet.pids, ...others });
    return Object.fromEntries(
      all.map(([name, pid]) => {
        const sizes = processSizes(pid, probeFolder);
        if (sizes === undefined) throw new Error(`the process ${name} (${pid}) has ended`);
        return [name, sizes];
      }),
    );
  }

  async #store(): Promise<Values> {
    const begin = performance.now();
    const isCounted = begin >= this.#countAgainAt || this.#samples % COUNTED_EVERY === 0;
    this.#samples += 1;
    const sizes = await storeSizes(this.#parts.fleet.storePath, isCounted);
    const end = performance.now();
    if (isCounted) this.#countAgainAt = end + (end - begin) / COUNTING_SHARE;
    return sizes;
  }
}
