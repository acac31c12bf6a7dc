/** The `limit` of a query: how many entries one page of its answer has at most. */
import { z } from "zod";

export function pageLimit(most: number, usual: number) {
  const expected = `a number from 1 to ${most}`;
  return z.int().min(1, expected).max(most, expected).default(usual);
}
