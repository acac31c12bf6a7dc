/** The limits of histories and searches: a part of `LIMITS`, where their relations to the others are. */
export const SEARCH_LIMITS = {
  history_limit_max: 1_000,
  history_limit_default: 20,
  search_limit_max: 100,
  search_limit_default: 20,
  /** Rows of an index that one search request may walk before it answers with a cursor. */
  search_scan_rows_max: 4_000,
  /** Checkpoints, and their bytes, that one search request may open to see whether they match. */
  search_open_count_max: 500,
  search_open_bytes_max: 16_000_000,
  search_text_chars_max: 200,
  /** The wait of a search for the index to reach a given position. */
  search_wait_ms_max: 1_500,
} as const;
