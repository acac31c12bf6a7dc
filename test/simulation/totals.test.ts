import { expect, test } from "vitest";
import { type SeedLine, SeedTotals } from "./totals.ts";

const LINE: SeedLine = {
  ...{
    seed: 7,
    digest: "d",
    commands: 50,
    simulatedMs: 1_000.4,
    kills: 2,
    spooled: 1,
    launched: 2,
    requested: 0,
  },
  ...{
    storeFaults: { conflicts: 3, stalls: 1 },
    checked: { reads: 20, versions: 12 },
    zombies: { refused: 5 },
  },
  ...{ signs: true, encrypts: false, violations: [] },
};

test("totals are the sums of the lines, and name the first seed with a violation", () => {
  const totals = new SeedTotals();
  totals.add(JSON.stringify(LINE));
  expect(totals.failing).toBeNull();
  const failing = { ...LINE, signs: false, encrypts: true, violations: [{ kind: "lost" }] };
  totals.add(JSON.stringify({ ...failing, seed: 8 }));
  totals.add(JSON.stringify({ ...failing, seed: 9 }));
  expect(totals.failing).toBe(8);
  expect(totals.counts).toEqual({
    ...{ seeds: 3, signing_seeds: 1, encrypted_seeds: 2, commands: 150, reads: 60, versions: 36 },
    ...{ spooled_commands: 3, launched_agents: 6 },
    ...{ simulated_ms: 3_000, kills: 6, store_faults: 12, refused_zombie_writes: 15 },
  });
  expect(totals.text()).toContain("3 seeds, 150 commands");
});
