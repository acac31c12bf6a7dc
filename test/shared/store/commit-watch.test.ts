import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { CommitWatch } from "../../../shared/store/lmdb/commit-watch.ts";

beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] }));
afterEach(() => void vi.useRealTimers());

/** A watch of a count of commits, with the looks at it. */
function watched({ reports = false } = {}) {
  let count = 100;
  let written: (() => void) | undefined;
  let looks = 0;
  let notices = 0;
  const commits = () => {
    looks += 1;
    return count;
  };
  const onWrite = (listener: () => void) => {
    if (!reports) return undefined;
    written = listener;
    return () => {
      written = undefined;
    };
  };
  const watch = new CommitWatch({ commits, clock: { monotonic: () => performance.now() }, onWrite });
  watch.start(() => {
    notices += 1;
  });
  return {
    watch,
    notices: () => notices,
    commit: () => {
      count += 1;
    },
    report: () => written?.(),
    isListening: () => written !== undefined,
    /** The number of looks in a second. */
    looksPerSecond: async () => {
      const before = looks;
      await vi.advanceTimersByTimeAsync(1_000);
      return looks - before;
    },
  };
}

test("it looks often while others commit, and rarely when they do not", async () => {
  const { commit, looksPerSecond, notices } = watched();
  await vi.advanceTimersByTimeAsync(3_000);
  expect(await looksPerSecond()).toBe(5);
  expect(notices()).toBe(0);
  commit();
  await vi.advanceTimersByTimeAsync(200);
  expect(notices()).toBe(1);
  expect(await looksPerSecond()).toBe(50);
  expect(notices()).toBe(2);
  await vi.advanceTimersByTimeAsync(2_000);
  expect(await looksPerSecond()).toBe(5);
  expect(notices()).toBe(2);
});

test("commits of this thread do not make it look often, also when they are counted before they are answered", async () => {
  const { watch, commit, looksPerSecond, notices } = watched();
  await vi.advanceTimersByTimeAsync(3_000);
  for (let n = 0; n < 10; n += 1) {
    const { promise, resolve } = Promise.withResolvers<void>();
    const own = watch.own(() => promise);
    commit();
    await vi.advanceTimersByTimeAsync(250);
    resolve();
    await own;
    await vi.advanceTimersByTimeAsync(250);
  }
  expect(notices()).toBeGreaterThanOrEqual(10);
  // Each own commit looks at the count twice; none is in progress now.
  expect(await looksPerSecond()).toBe(5);
});

test("a commit that fails without effect does not hide a commit of another thread", async () => {
  const { watch, commit, looksPerSecond } = watched();
  await vi.advanceTimersByTimeAsync(3_000);
  await expect(watch.own(() => Promise.reject(new Error("full")))).rejects.toThrow("full");
  await vi.advanceTimersByTimeAsync(3_000);
  commit();
  await vi.advanceTimersByTimeAsync(200);
  expect(await looksPerSecond()).toBe(50);
  watch.stop();
  expect(await looksPerSecond()).toBe(0);
});

test("without commits it waits for a report of the system, and looks rarely", async () => {
  const { watch, commit, report, looksPerSecond, notices, isListening } = watched({ reports: true });
  await vi.advanceTimersByTimeAsync(3_000);
  expect(isListening()).toBe(true);
  await vi.advanceTimersByTimeAsync(10_000);
  expect((await looksPerSecond()) + (await looksPerSecond())).toBe(1);
  expect(notices()).toBe(0);
  commit();
  report();
  expect(notices()).toBe(1);
  expect(isListening()).toBe(false);
  expect(await looksPerSecond()).toBe(50);
  expect(notices()).toBe(2);
  await vi.advanceTimersByTimeAsync(4_000);
  expect(isListening()).toBe(true);
  watch.stop();
  expect(isListening()).toBe(false);
  expect(await looksPerSecond()).toBe(0);
});

test("a commit without a report is noticed by the slow look", async () => {
  const { commit, notices, isListening } = watched({ reports: true });
  await vi.advanceTimersByTimeAsync(5_000);
  expect(isListening()).toBe(true);
  commit();
  await vi.advanceTimersByTimeAsync(2_000);
  expect(notices()).toBeGreaterThanOrEqual(1);
});

test("few commits of this thread keep the reports, many end them for a while", async () => {
  const { watch, commit, report, isListening } = watched({ reports: true });
  await vi.advanceTimersByTimeAsync(5_000);
  const own = async () => {
    await watch.own(async () => commit());
    report();
  };
  for (let n = 0; n < 10; n += 1) {
    await own();
    await vi.advanceTimersByTimeAsync(500);
    expect(isListening()).toBe(true);
  }
  for (let n = 0; n < 20; n += 1) await own();
  expect(isListening()).toBe(false);
  await vi.advanceTimersByTimeAsync(4_000);
  expect(isListening()).toBe(true);
});
