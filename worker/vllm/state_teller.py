"""The model's side of ``worker.vllm.states``, in vLLM's own process.

Two of vLLM's extension points carry it. A model class of ours (out of tree, named by a
``vllm.general_plugins`` entry point) derives from vLLM's own and from ``TellsStates``; where a
layer's input is told, it is handed out by the hook that vLLM has for EAGLE 3. ``TellerExtension``
(``worker_extension_cls``) then tells the model where to send them, and which rows a step has.

A step's states are sent when vLLM asks the model for logits: the batch is still the step's. That
happens outside of what is compiled or captured, once a step, for whole prompts and for parts of
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import zmq

from engine.wire import encode_value
from worker.vllm.cache_layout import CacheLayoutExtension
from worker.vllm.states import MAX_WAITING_STEPS, StepStates

if TYPE_CHECKING:
    import torch


class StateTeller:
    """Sends what a step's positions held."""

    def __init__(self, runner: Any, address: str) -> None:
        """``runner`` is vLLM's model runner, which knows the rows of the step that runs."""
        self._runner = runner
        self._socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.PUSH)
        self._socket.set_hwm(MAX_WAITING_STEPS)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.connect(address)

    def tell(self, embeddings: torch.Tensor, hidden: torch.Tensor) -> None:
        """``embeddings`` and ``hidden`` [positions of the step, padding behind them, width]."""
        batch = self._runner.input_batch
        num_rows = batch.num_reqs
        bounds = self._runner.query_start_loc.np[: num_rows + 1]
        num_positions = int(bounds[-1])
        step = StepStates(
            list(batch.req_ids[:num_rows]),
            batch.num_computed_tokens_cpu[:num_rows].tolist(),
            np.diff(bounds).tolist(),
            _to_numpy(embeddings[:num_positions]),
            _to_numpy(hidden[:num_positions]),
        )
        self._socket.send_multipart(encode_value(step))


class TellerExtension(CacheLayoutExtension):
    """Mixed into vLLM's worker. Called by ``collective_rpc``, by name."""

    def tell_states_to(self, address: str) -> None:
        """Begin to send each step's states. On several GPUs all have the same; one sends them."""
        worker: Any = self
        if worker.rank != 0:
            return
        runner = worker.model_runner
        runner.get_model().teller = StateTeller(runner, address)


class TellsStates:
    """A model class that tells its states; before vLLM's own class among the bases.

    ``told_layer`` is the layer whose input is told as the hidden state; None: what comes behind
    the last layer and its norm.
    """

    teller: StateTeller | None = None

    def hand_out(self, told_layer: int | None) -> None:
        """Have the layers hand out what is told. Call at the end of ``__init__``."""
        model: Any = self
        self._told_layer = told_layer
        self._states: tuple[torch.Tensor, torch.Tensor] | None = None
        if told_layer is not None:
            model.set_aux_hidden_state_layers((told_layer,))

    def forward(self, *args: Any, inputs_embeds: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        """vLLM gives embeddings, never ids, where prompts may hold embeddings."""
        # A copy: layers add to their residual in place, and the first one's is this tensor.
        embeddings = inputs_embeds.clone()
        model: Any = super()
        hidden = model.forward(*args, inputs_embeds=inputs_embeds, **kwargs)
        told = hidden
        if self._told_layer is not None:
            hidden, (told,) = hidden
        self._states = (embeddings, told)
        result: torch.Tensor = hidden
        return result

    def compute_logits(self, hidden_states: torch.Tensor) -> torch.Tensor | None:
        states, self._states = self._states, None
        if self.teller is not None and states is not None:
            self.teller.tell(*states)
        model: Any = super()
        logits: torch.Tensor | None = model.compute_logits(hidden_states)
        return logits


def _to_numpy(states: torch.Tensor) -> np.ndarray[Any, np.dtype[np.float32]]:
    """A copy: the next step writes over the model's buffers."""
    array: np.ndarray[Any, np.dtype[np.float32]] = states.float().cpu().numpy().copy()
    return array
