"""The model's side of ``worker.vllm.states``, in vLLM's own process.

Two of vLLM's extension points carry it. A model class of ours (out of tree, named by a
``vllm.general_plugins`` entry point) derives from vLLM's own and from ``TellsStates``; where a
layer's input is told, it is handed out by the hook that vLLM has for EAGLE 3. ``TellerExtension``
(``worker_extension_cls``) then tells the model where to send them, and which rows a step has. Rows
that are marked as untold are left out.

A step's states are sent when vLLM asks the model for logits: the batch is still the step's. That
happens outside of what is compiled or captured, once a step, for whole prompts and for parts of
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import zmq
from numpy.typing import NDArray

from engine.wire import encode_value
from worker.vllm.cache_layout import CacheLayoutExtension
from worker.vllm.row_marks import is_untold
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
        bounds = self._runner.query_start_loc.np[: batch.num_reqs + 1].tolist()
        rows = [number for number in range(batch.num_reqs) if self._is_told(batch.req_ids[number])]
        if not rows:
            return
        counts = [bounds[number + 1] - bounds[number] for number in rows]
        places = np.concatenate([np.arange(bounds[n], bounds[n + 1]) for n in rows])
        step = StepStates(
            [batch.req_ids[number] for number in rows],
            [int(batch.num_computed_tokens_cpu[number]) for number in rows],
            counts,
            _to_numpy(embeddings, places),
            _to_numpy(hidden, places),
        )
        self._socket.send_multipart(encode_value(step))

    def _is_told(self, row_id: str) -> bool:
        """Whether somebody wants to know of a row; a pooling request has no parameters to say."""
        sampling = self._runner.requests[row_id].sampling_params
        return sampling is None or not is_untold(sampling.extra_args)


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


def _to_numpy(states: torch.Tensor, places: NDArray[np.int64]) -> NDArray[np.float32]:
    """A copy of some positions: the next step writes over the model's buffers."""
    array: NDArray[np.float32] = states[places].float().cpu().numpy()
    return array
