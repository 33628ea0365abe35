// One lease: the handler's run, its end, and all that must be told of it until that is answered.
import { createHash } from "node:crypto";
import { canonical } from "./canonical_json.mjs";

const PIECES_UNRECORDED_MAX = 100; // so many wait at a time; a handler that is faster waits too
const MESSAGE_CHARACTERS_MAX = 200;

export class HandlerFailure extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

export class HeldLease {
  #stop = new AbortController();
  #onEnd;
  #onPiece;
  #room;
  #sent = 0;
  #hash = createHash("sha256");
  #alarm;

  constructor(lease, { onEnd, onPiece }) {
    this.lease = lease;
    this.ref = { job_id: lease.job_id, token: lease.token };
    this.name = `${lease.job_id} ${lease.token}`;
    this.progress = {};
    this.report = undefined;
    this.lost = false;
    this.unrecorded = [];
    this.#onEnd = onEnd;
    this.#onPiece = onPiece;
  }

  get signal() {
    return this.#stop.signal;
  }

  heartbeat() {
    return { lease: this.ref, ...this.progress };
  }

  /** Run the handler to its end, or until it is told to stop; only then is there room for another. */
  async run(handler, fetchInput) {
    this.#alarm = setTimeout(() => this.stop("timeout"), milliseconds(this.lease.time_left));
    const end = await this.#end(handler, fetchInput);
    clearTimeout(this.#alarm);
    if (!this.lost) {
      this.report = { lease: this.ref, ...end };
    }
    this.#onEnd(this);
  }

  /** Tell the handler to stop; the first reason counts, but for the loss of the lease. */
  stop(reason) {
    this.lost ||= reason === "lost";
    this.#stop.abort(reason);
    this.#room?.();
  }

  tellProgress(share, message) {
    const text = [...message].slice(0, MESSAGE_CHARACTERS_MAX).join("");
    this.progress = { progress: Math.floor(100 * share), progress_message: text };
  }

  /** Send a piece, once few enough are under way. */
  async emit(text) {
    while (this.unrecorded.length >= PIECES_UNRECORDED_MAX) {
      this.signal.throwIfAborted();
      await new Promise((resolve) => (this.#room = resolve));
    }
    this.#sent += 1;
    this.#hash.update(text);
    const piece = { lease: this.ref, number: this.#sent, text };
    this.unrecorded.push(piece);
    this.#onPiece(piece);
  }

  piecesRecorded(number) {
    this.unrecorded = this.unrecorded.filter((piece) => piece.number > number);
    this.#room?.();
  }

  async #end(handler, fetchInput) {
    try {
      const output = await handler(this, parsed(await fetchInput()));
      return this.signal.reason === "timeout" ? this.#stopped() : { success: this.#success(output) };
    } catch (error) {
      return this.signal.aborted ? this.#stopped() : { failure: failure(error) };
    }
  }

  #success(output) {
    const text = canonical(output);
    const pieces = this.#sent ? { piece_count: this.#sent, pieces_hash: this.#hash.digest("hex") } : {};
    return { output: Buffer.from(text), output_hash: createHash("sha256").update(text).digest("hex"), ...pieces };
  }

  #stopped() {
    switch (this.signal.reason) {
      case "timeout":
        return { failure: { code: "TIMEOUT", message: "the attempt ran out of time" } };
      case "cancel":
        return { stopped: {} };
      default:
        return { give_back: { reason: "GIVE_BACK_REASON_DRAINING" } };
    }
  }
}

function parsed(bytes) {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    throw new HandlerFailure("INPUT_INVALID", "the input is no JSON");
  }
}

function failure(error) {
  if (error instanceof HandlerFailure) {
    return { code: error.code, message: error.message };
  }
  const inside = String(error?.stack ?? error).slice(0, 10_000);
  return { code: "INTERNAL_HANDLER", message: "the handler failed", internal_message: inside };
}

export function milliseconds({ seconds, nanos }) {
  return Number(seconds) * 1000 + nanos / 1e6;
}
